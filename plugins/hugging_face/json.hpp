// Parses JSON of untrusted files: size and depth are limited, and duplicate keys are errors.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace weft::hugging_face {

using Json = nlohmann::ordered_json;

// Parses `text`, which `what` describes in messages, in linear time and memory. Throws DATA_LOSS.
Json parse_json(std::string_view text, std::string_view what);

// Returns JSON as text: on one line if `indent` is negative. Throws INVALID_ARGUMENT if a string is not
// UTF-8.
std::string json_text(const Json& json, int indent);

}  // namespace weft::hugging_face

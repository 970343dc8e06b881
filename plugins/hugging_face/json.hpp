// JSON from files that may be hostile: size and depth are limited, duplicate keys are errors.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace weft::hugging_face {

using Json = nlohmann::ordered_json;

// `what` names the text in messages. Errors: DATA_LOSS.
Json parse_json(std::string_view text, std::string_view what);

// Errors: INVALID_ARGUMENT if a string is not UTF-8. `indent` < 0: one line.
std::string json_text(const Json& json, int indent);

}  // namespace weft::hugging_face

// JSON from outside: bounded depth, no duplicate keys, errors that name the source.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace weft {

// Throws INVALID_ARGUMENT: `<source>: <what and where>`.
nlohmann::json parse_json(std::string_view text, std::string_view source);

// "an object", "a text", ... for messages.
const char* json_kind(const nlohmann::json& value);

}  // namespace weft

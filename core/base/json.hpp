// Parses JSON that is not trusted: limits the depth, and refuses duplicate keys.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace weft {

// Parses `text`. Throws INVALID_ARGUMENT with `<source>: <what is wrong and where>`.
nlohmann::json parse_json(std::string_view text, std::string_view source);

// Returns the kind of a value for messages: "an object", "a text", ...
const char* json_kind(const nlohmann::json& value);

}  // namespace weft

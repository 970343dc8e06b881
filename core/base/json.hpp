// Parses JSON that is not trusted: limits depth and size, and refuses duplicate keys.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Parses a text in time and memory that grow linearly with its length. Throws INVALID_ARGUMENT with
// `<source>: <what is wrong and where>` for a text that is not JSON, repeats a key, is nested deeper than 64
// levels, or has more than 4 million values.
nlohmann::json parse_json(std::string_view text, std::string_view source);

// Parses an object whose member `key` is a large object. Calls `take` with each member of that object, in the
// order of the text, and keeps none of them; returns the outer object with an empty `key`. So memory is
// bounded by the largest member, to which the limit of values applies. Does not find names that `key`
// repeats.
nlohmann::json parse_json_members(
    std::string_view text, std::string_view source, std::string_view key,
    const std::function<void(const std::string& name, const nlohmann::json& value)>& take);

// Returns an integer that is at least `least`. Throws DATA_LOSS (`<source>: "<key>" is ..., must be ...`) for
// any other value, where a conversion would round.
int64_t integer_of(const nlohmann::json& value, std::string_view key, std::string_view source,
                   int64_t least = 0);
// Returns the member `key` of an object in the same way.
int64_t integer_at(const nlohmann::json& object, const char* key, std::string_view source, int64_t least = 0);
// Returns the elements of the array `key` of an object in the same way.
std::vector<int64_t> integers_at(const nlohmann::json& object, const char* key, std::string_view source);

// Returns what an exception of the JSON library says, without the name of its class in front.
std::string_view text_of(const nlohmann::detail::exception& exception);

// Returns the kind of a value for messages: "an object", "a text", ...
const char* json_kind(const nlohmann::json& value);

}  // namespace weft

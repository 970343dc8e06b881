// Members of the JSON objects in files of text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/json.hpp"
#include "base/text.hpp"

namespace weft::data {

// Returns the member `key`. Throws INVALID_ARGUMENT if there is none.
inline const nlohmann::json& member_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) fail(WEFT_INVALID_ARGUMENT, "it has no \"{}\"", key);
  return *found;
}

// Returns a text, which messages call `key`. Throws INVALID_ARGUMENT for any other value.
inline const std::string& text_in(const nlohmann::json& value, const char* key) {
  if (!value.is_string()) fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be a text", key, json_kind(value));
  return value.get_ref<const std::string&>();
}

// Returns the member `key`, a text. Throws INVALID_ARGUMENT.
inline const std::string& text_at(const nlohmann::json& object, const char* key) {
  return text_in(member_at(object, key), key);
}

}  // namespace weft::data

// The values that a user gave, by their names: flags of the command, or options of a program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft::settings {

using nlohmann::json;

// Returns whether a setting was given.
inline bool given(const json& settings, const char* key) {
  return settings.contains(key);
}

// Return a setting, or `otherwise` if it was not given. Its type was checked before.
inline std::string text(const json& settings, const char* key, const std::string& otherwise = "") {
  return given(settings, key) ? settings.at(key).get<std::string>() : otherwise;
}
inline int64_t integer(const json& settings, const char* key, int64_t otherwise) {
  return given(settings, key) ? settings.at(key).get<int64_t>() : otherwise;
}
inline double real(const json& settings, const char* key, double otherwise) {
  return given(settings, key) ? settings.at(key).get<double>() : otherwise;
}
// Returns whether a flag was given and is true.
inline bool flag(const json& settings, const char* key) {
  return given(settings, key) && settings.at(key).get<bool>();
}

}  // namespace weft::settings

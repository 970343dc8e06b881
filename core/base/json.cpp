#include "base/json.hpp"

#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace weft {

using nlohmann::json;

json parse_json(std::string_view text, std::string_view source) {
  constexpr int kDeepest = 64;  // dump() recurses
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDeepest) fail(WEFT_INVALID_ARGUMENT, "{}: nested deeper than {} levels", source, kDeepest);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      fail(WEFT_INVALID_ARGUMENT, "{}: the key {} appears twice in one object", source,
           printable(parsed.dump()));
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& exception) {
    fail(WEFT_INVALID_ARGUMENT, "{}: not valid JSON: {}", source, printable(exception.what(), 300));
  }
}

const char* json_kind(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "a text";
    case json::value_t::boolean:
      return "true or false";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return "an integer";
    case json::value_t::number_float:
      return "a number";
    default:
      return "no JSON value";
  }
}

}  // namespace weft

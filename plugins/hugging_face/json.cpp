#include "json.hpp"

#include <set>
#include <string>
#include <vector>

#include "file.hpp"
#include "text.hpp"

namespace weft::hugging_face {

Json parse_json(std::string_view text, std::string_view what) {
  constexpr int kDeepest = 16;
  if (text.size() > kLargestHeader) {
    fail(WEFT_DATA_LOSS, what, " has ", text.size(), " bytes, more than the ", kLargestHeader,
         " that are read");
  }
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) fail(WEFT_DATA_LOSS, what, " is nested more than ", kDeepest, " levels deep");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        fail(WEFT_DATA_LOSS, what, " has the name ", in_quotes(key), " twice");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    fail(WEFT_DATA_LOSS, what, " is not valid JSON: ", error.what());
  }
}

std::string json_text(const Json& json, int indent) {
  try {
    return json.dump(indent);
  } catch (const Json::exception& error) {
    fail(WEFT_INVALID_ARGUMENT, "a name or a text of the checkpoint is not UTF-8: ", error.what());
  }
}

}  // namespace weft::hugging_face

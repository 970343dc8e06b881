#include "tokenizer/pattern.hpp"

namespace weft::tokenizer {

Pattern::Pattern(const JsonPart& part) {
  const nlohmann::json* value = part.find("pattern");
  if (value && value->is_string()) {
    string_ = value->get<std::string>();
    return;
  }
  const JsonPart pattern(part.object("pattern"), "\"pattern\"", part.source());
  if (pattern.find("Regex"))
    regex_.emplace(pattern.text("Regex"), part.rule());
  else
    string_ = pattern.text("String");
}

}  // namespace weft::tokenizer

#include "command/stop_texts.hpp"

#include <algorithm>
#include <utility>

namespace weft::command {

std::string StopTexts::add(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  size_t first = std::string::npos, begun = 0;
  for (const std::string& text : *texts_) {
    first = std::min(first, held_.find(text));
    // The longest end of held_ that `text` begins with.
    size_t length = std::min(held_.size(), text.size() - 1);
    while (length > 0 && held_.compare(held_.size() - length, length, text, 0, length) != 0) --length;
    begun = std::max(begun, length);
  }
  found_ = first != std::string::npos;
  const size_t certain = found_ ? first : held_.size() - begun;
  std::string before = held_.substr(0, certain);
  held_ = found_ ? std::string() : held_.substr(certain);
  return before;
}

std::string StopTexts::end() {
  return std::exchange(held_, {});
}

}  // namespace weft::command

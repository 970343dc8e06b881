// Finds the texts that end a sequence (`weft generate --stop`) in text that comes piece by piece.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::command {

class StopTexts {
 public:
  // None of `texts` is empty. They live as long as this object.
  explicit StopTexts(const std::vector<std::string>& texts) : texts_(&texts) {}

  // Adds the next piece. Returns the text that is certain to stand before any stop text. Once one is found,
  // everything behind is dropped.
  std::string add(std::string_view piece);
  std::string end();  // returns the text that could have become a stop text
  // Returns the part of a whole text that stands before the first stop text.
  std::string add_all(std::string_view text) { return add(text) + end(); }
  bool found() const { return found_; }

 private:
  const std::vector<std::string>* texts_;
  std::string held_;  // may be the beginning of a stop text
  bool found_ = false;
};

}  // namespace weft::command

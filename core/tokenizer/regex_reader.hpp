// Reads the characters of a regular expression: the parts that are no tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/code_point_set.hpp"

namespace weft::tokenizer {

// How deep classes and groups can be inside each other.
constexpr int kMostGroups = 50;
// The largest number in an expression.
constexpr uint32_t kLargestNumber = 1000;

class RegexReader {
 public:
  // `source` is for messages. Both must outlive the reader.
  RegexReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

 protected:
  // Throw UNIMPLEMENTED, and DATA_LOSS.
  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void wrong(std::string_view what) const;

  bool at_end() const { return at_ == text_.size(); }
  bool skip(std::string_view word);
  char32_t next();
  std::optional<uint32_t> digits();
  // Reads the name of a group behind "<" or "'", with what closes it.
  std::string_view name();
  // Reads what follows "[", with the closing "]".
  CodePointSet bracket(int depth);
  // Reads what follows "\": returns the code point that it means, or adds the class that it means to `set`.
  std::optional<char32_t> escape(CodePointSet& set);

  const std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;

 private:
  char32_t octal(char32_t first);
  char32_t number(char32_t letter);
  void property(bool negated, CodePointSet& set);
};

}  // namespace weft::tokenizer

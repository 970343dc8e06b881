// Patterns over the paths of modules: `*` stands for one component or a part of one, `[12]` for one of these
// characters; several patterns are separated by commas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::plan {

class Pattern {
 public:
  // Throws INVALID_ARGUMENT: the pattern, what is malformed, what is allowed.
  static Pattern parse(std::string_view text);

  // The patterns between the commas, without blanks; at least one.
  const std::vector<std::string>& alternatives() const { return alternatives_; }
  bool matches(std::string_view path) const;
  // All alternatives, separated by ", ".
  std::string text() const;

 private:
  std::vector<std::string> alternatives_;
};

// `glob` is one well-formed alternative.
bool glob_matches(std::string_view glob, std::string_view path);

}  // namespace weft::plan

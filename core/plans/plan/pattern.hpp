// Patterns that match paths of modules. `*` matches one component or a part of one, `[12]` one of these
// characters. Commas separate alternatives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::plan {

// A parsed pattern.
class Pattern {
 public:
  // Parses a pattern. Throws INVALID_ARGUMENT naming the pattern, what is malformed in it and what is
  // allowed.
  static Pattern parse(std::string_view text);

  // Returns the alternatives, without blanks; there is at least one.
  const std::vector<std::string>& alternatives() const { return alternatives_; }
  // Returns true if at least one alternative matches.
  bool matches(std::string_view path) const;
  // Returns all alternatives, separated by ", ".
  std::string text() const;

 private:
  std::vector<std::string> alternatives_;
};

// Returns true if `glob`, one alternative of a parsed pattern, matches `path`.
bool glob_matches(std::string_view glob, std::string_view path);

}  // namespace weft::plan

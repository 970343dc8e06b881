// The structure of a YAML or JSON text, with its lines, and with scalars as they are written.
#pragma once

#include <string>
#include <vector>

namespace weft::cli {

struct ConfigNode {
  enum class Kind { kNull, kPlain, kQuoted, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 1;
  std::string text;               // of scalars
  std::string name;               // in a map
  std::vector<ConfigNode> items;  // of lists, and of maps in their order

  bool is_scalar() const { return kind == Kind::kPlain || kind == Kind::kQuoted; }
};

// Throws UsageError with `path` and the line for a text that is not YAML (JSON, if the path ends in .json),
// repeats a name, is nested deeper than 16 levels, or has an anchor, an alias, a tag or several documents.
ConfigNode parse_config(const std::string& text, const std::string& path);

}  // namespace weft::cli

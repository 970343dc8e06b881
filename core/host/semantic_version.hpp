// Versions of plugins, by Semantic Versioning 2.0, and how one asks for them: NAME@0.3.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace weft::host {

// Returns true for a version such as "1.2.3", "1.2.3-rc.1" or "1.2.3+build".
bool is_version(std::string_view text);

// Compares two versions: 0.9.0 < 0.10.0, and 1.0.0-rc.1 < 1.0.0. Ignores what follows `+`.
std::strong_ordering compare_versions(std::string_view a, std::string_view b);

bool is_pre_release(std::string_view version);  // "1.0.0-rc.1"

// Which versions of a plugin one asks for.
//
//   ""            every release            "0.3"    the releases 0.3.0, 0.3.1, ...
//   "1.0.0-rc.1"  this pre-release         "=0.3.0" this version and no other
class VersionRequest {
 public:
  VersionRequest() = default;  // every release
  // Throws INVALID_ARGUMENT, which calls the text `named`.
  explicit VersionRequest(std::string_view text, std::string_view named = "the version");
  // Returns the request for this version alone.
  static VersionRequest exactly(std::string_view version);

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  bool matches(std::string_view version) const;

 private:
  std::string text_;
};

// Returns the parts of "NAME@VERSION". Without an @ the version is empty. Throws INVALID_ARGUMENT if nothing
// follows the @.
struct NameAndVersion {
  std::string_view name, version;
};
NameAndVersion split_name(std::string_view asked);

}  // namespace weft::host

// A plugin of the build tree as a newer version of it.
#pragma once

#include <filesystem>
#include <string>

namespace weft::test {

inline constexpr const char* kOld = "0.1.0";  // of what is built here
inline constexpr const char* kNew = "0.2.0";  // as long, so that a library can be changed to it

std::string text_of(const std::filesystem::path& path);

// Copies the plugin from `built`, the folder of its version kOld, to `to`, as the version kNew. It stands in
// the library, in its note and in what it replies, and in the manifest with the digest. Returns `to`.
std::filesystem::path make_newer(const std::filesystem::path& built, const std::filesystem::path& to);

}  // namespace weft::test

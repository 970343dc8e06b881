// Checks that no other user can change a plugin that this process is about to run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace weft::host {

// Nothing if only root and this user can change `file` and the folders above it, and `file` stays inside
// `root` after all links; otherwise what is wrong and the remedy. Both paths must exist.
std::optional<std::string> find_intruder(const std::filesystem::path& file,
                                         const std::filesystem::path& root);

// Throws LoadError (TRUST) for what find_intruder finds, and if the file's SHA-256 is not `sha256`.
void check_trust(const std::filesystem::path& file, const std::filesystem::path& root,
                 std::string_view sha256);

}  // namespace weft::host

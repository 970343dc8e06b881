// Checks that no other user can change a plugin that this process is about to run.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace weft::host {

// Returns the users who may own plugins: root, this user, and the owners of `library_folder`, where
// libweft.so is, and of the folders above it, because they could replace libweft.so as well.
std::set<uid_t> trusted_owners(const std::filesystem::path& library_folder);

// Returns what is wrong and how to repair it, or nothing if `file` is inside `root` after all links, and
// every file, folder and link on the way to it belongs to one of `owners` and can be written by its owner
// only. Both paths must exist.
std::optional<std::string> find_intruder(const std::filesystem::path& file, const std::filesystem::path& root,
                                         const std::set<uid_t>& owners);

// Throws LoadError (TRUST) for what find_intruder finds, and if the file's SHA-256 is not `sha256`.
void check_trust(const std::filesystem::path& file, const std::filesystem::path& root,
                 const std::set<uid_t>& owners, std::string_view sha256);

}  // namespace weft::host

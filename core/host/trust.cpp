#include "host/trust.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/sha256.hpp"
#include "base/text.hpp"
#include "host/load_error.hpp"

namespace weft::host {
namespace {

namespace fs = std::filesystem;

// Returns true if the group has the name of the user: a private group, as many systems create for each user.
bool is_private_group(gid_t group, uid_t owner) {
  std::vector<char> group_text(1 << 14), user_text(1 << 14);
  struct group group_entry = {}, *found_group = nullptr;
  struct passwd user = {}, *found_user = nullptr;
  if (getgrgid_r(group, &group_entry, group_text.data(), group_text.size(), &found_group) != 0 ||
      !found_group)
    return false;
  if (getpwuid_r(owner, &user, user_text.data(), user_text.size(), &found_user) != 0 || !found_user)
    return false;
  if (user.pw_gid != group) return false;
  for (char** member = group_entry.gr_mem; *member != nullptr; ++member) {
    if (std::strcmp(*member, user.pw_name) != 0) return false;
  }
  return true;
}

std::optional<std::string> find_writer(const fs::path& path, bool parent_is_shared, bool* is_shared) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return fmt::format("{}: {}", path.string(), std::strerror(errno));
  const unsigned mode = status.st_mode & 07777;
  if (parent_is_shared && status.st_uid != 0 && status.st_uid != geteuid()) {
    return fmt::format(
        "{} belongs to user {} in a folder where everybody may write; move the plugin to a folder of your "
        "own",
        path.string(), status.st_uid);
  }
  const bool all_can_write = (mode & S_IWOTH) != 0;
  const bool group_can_write = (mode & S_IWGRP) != 0 && !is_private_group(status.st_gid, status.st_uid);
  // In a folder with the sticky bit, such as /tmp, other users can add files but cannot replace this user's.
  *is_shared = S_ISDIR(status.st_mode) && (mode & S_ISVTX) != 0 && all_can_write;
  if (*is_shared) return std::nullopt;
  if (all_can_write) {
    return fmt::format("{} can be written by everybody (mode {:o}); run: chmod o-w {}", path.string(), mode,
                       path.string());
  }
  if (group_can_write) {
    return fmt::format("{} can be written by group {} (mode {:o}); run: chmod g-w {}", path.string(),
                       status.st_gid, mode, path.string());
  }
  return std::nullopt;
}

bool is_inside(const fs::path& file, const fs::path& root) {
  const fs::path relative = file.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

std::optional<std::string> find_intruder(const fs::path& file, const fs::path& root) {
  std::error_code code;
  const fs::path real_file = fs::canonical(file, code);
  if (code) return fmt::format("{}: {}", file.string(), code.message());
  const fs::path real_root = fs::canonical(root, code);
  if (code) return fmt::format("{}: {}", root.string(), code.message());
  if (!is_inside(real_file, real_root)) {
    return fmt::format("{} leads to {}, outside of its folder {}; copy the file there", file.string(),
                       real_file.string(), real_root.string());
  }
  bool is_shared = false;
  fs::path path;
  for (const fs::path& part : real_file) {
    path /= part;
    if (const auto problem = find_writer(path, is_shared, &is_shared)) return problem;
  }
  return std::nullopt;
}

void check_trust(const fs::path& file, const fs::path& root, std::string_view sha256) {
  if (const std::optional<std::string> problem = find_intruder(file, root)) {
    throw LoadError(Stage::kTrust, WEFT_PERMISSION_DENIED, *problem);
  }
  const std::string digest = sha256_file(file);
  if (digest != sha256) {
    throw LoadError(
        Stage::kTrust, WEFT_DATA_LOSS,
        fmt::format("{} has the SHA-256 {}, its manifest says {}: the file was changed after it was built; "
                    "install the plugin again",
                    file.string(), digest, sha256));
  }
}

}  // namespace weft::host

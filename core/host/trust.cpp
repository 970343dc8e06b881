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

// Returns who else than `owners` can change what is at `path`, which is a file, a folder or a link.
std::optional<std::string> find_writer(const fs::path& path, const std::set<uid_t>& owners) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return fmt::format("{}: {}", path.string(), std::strerror(errno));
  if (!owners.contains(status.st_uid)) {
    return fmt::format(
        "{} belongs to user {}; plugins and the folders above them must belong to root, to you (user {}) or "
        "to "
        "the owner of Weft; copy the plugin to a folder of your own",
        path.string(), status.st_uid, geteuid());
  }
  const unsigned mode = status.st_mode & 07777;
  const bool all_can_write = (mode & S_IWOTH) != 0;
  const bool group_can_write = (mode & S_IWGRP) != 0 && !is_private_group(status.st_gid, status.st_uid);
  // In a folder with the sticky bit, such as /tmp, other users can add files but cannot replace this user's.
  const bool is_shared = S_ISDIR(status.st_mode) && (mode & S_ISVTX) != 0;
  if (S_ISLNK(status.st_mode) || is_shared) return std::nullopt;
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

// Checks every folder and every link through which the system finds `file`, and `file` itself.
std::optional<std::string> find_writer_on_the_way(const fs::path& file, const std::set<uid_t>& owners) {
  constexpr int kMostLinks = 40;  // as in the kernel
  std::vector<fs::path> left;     // the parts that are not resolved yet, the next one last
  const auto push = [&left](const fs::path& path) {
    const std::vector<fs::path> parts(path.begin(), path.end());
    left.insert(left.end(), parts.rbegin(), parts.rend());
  };
  push(fs::absolute(file));
  fs::path resolved;
  for (int links = 0; !left.empty();) {
    const fs::path part = left.back();
    left.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      resolved = resolved.parent_path();
      continue;
    }
    const fs::path next = resolved / part;
    if (const auto problem = find_writer(next, owners)) return problem;
    std::error_code code;
    const fs::path target = fs::read_symlink(next, code);
    if (code) {
      resolved = next;
    } else if (++links > kMostLinks) {
      return fmt::format("{} leads through more than {} links", file.string(), kMostLinks);
    } else {
      push(target);
    }
  }
  return std::nullopt;
}

bool is_inside(const fs::path& file, const fs::path& root) {
  const fs::path relative = file.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

std::set<uid_t> trusted_owners(const fs::path& library_folder) {
  std::set<uid_t> owners = {0, geteuid()};
  fs::path folder;
  for (const fs::path& part : library_folder) {
    struct stat status = {};
    folder /= part;
    if (stat(folder.c_str(), &status) == 0) owners.insert(status.st_uid);
  }
  return owners;
}

std::optional<std::string> find_intruder(const fs::path& file, const fs::path& root,
                                         const std::set<uid_t>& owners) {
  std::error_code code;
  const fs::path real_file = fs::canonical(file, code);
  if (code) return fmt::format("{}: {}", file.string(), code.message());
  const fs::path real_root = fs::canonical(root, code);
  if (code) return fmt::format("{}: {}", root.string(), code.message());
  if (!is_inside(real_file, real_root)) {
    return fmt::format("{} leads to {}, outside of its folder {}; copy the file there", file.string(),
                       real_file.string(), real_root.string());
  }
  return find_writer_on_the_way(file, owners);
}

void check_trust(const fs::path& file, const fs::path& root, const std::set<uid_t>& owners,
                 std::string_view sha256) {
  if (const std::optional<std::string> problem = find_intruder(file, root, owners)) {
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

#include "text/cache_places.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/environment.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

bool is_in_group(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(0, count)));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

bool is_user_or_root(const struct stat& status) {
  return status.st_uid == ::geteuid() || status.st_uid == 0;
}

// Throws unless what is at `path` is of this user, of root, or of a group of both the user and the folder. In
// a folder that everybody can write to, everybody's files may have its group.
void require_owner(const fs::path& path, const struct stat& status, const struct stat& folder) {
  const bool is_of_group =
      status.st_gid == folder.st_gid && (folder.st_mode & S_IWOTH) == 0 && is_in_group(status.st_gid);
  if (!is_user_or_root(status) && !is_of_group)
    fail(WEFT_PERMISSION_DENIED, "{} belongs to user {} and group {}, and this is user {}", path.string(),
         status.st_uid, status.st_gid, ::geteuid());
}

// Returns the status of a folder, or nothing if there is none.
std::optional<struct stat> believed_folder(const fs::path& folder) {
  struct stat status = {}, link = {};
  if (::lstat(folder.c_str(), &link) != 0 || ::stat(folder.c_str(), &status) != 0) return std::nullopt;
  if (!S_ISDIR(status.st_mode)) fail(WEFT_PERMISSION_DENIED, "{} is no folder", folder.string());
  if (S_ISLNK(link.st_mode) && !is_user_or_root(link))
    fail(WEFT_PERMISSION_DENIED, "{} is a link of user {}, and this is user {}", folder.string(), link.st_uid,
         ::geteuid());
  require_owner(folder, status, status);
  return status;
}

}  // namespace

std::vector<fs::path> cache_places(const TextFiles& files, const std::string& settings) {
  const auto name = [&](const std::string& folder) {
    const std::string key = sha256_hex(settings + folder).substr(0, 16);
    return fmt::format("{}-{}.ids", fs::path(files.folder).filename().string(), key);
  };
  std::vector<fs::path> found = {fs::path(files.folder) / ".weft_cache" / name("")};
  std::optional<std::string> home = environment("XDG_CACHE_HOME");
  if (!home && environment("HOME")) home = *environment("HOME") + "/.cache";
  if (home) found.push_back(fs::path(*home) / "weft" / "ids" / name(files.folder));
  return found;
}

int open_believed(const fs::path& path) {
  const std::optional<struct stat> folder = believed_folder(path.parent_path());
  if (!folder) return -1;
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return -1;
  if (file < 0 && errno == ELOOP) fail(WEFT_PERMISSION_DENIED, "{} is a link", path.string());
  if (file < 0) fail(WEFT_PERMISSION_DENIED, "{} cannot be read: {}", path.string(), std::strerror(errno));
  try {
    struct stat status = {};
    if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
      fail(WEFT_PERMISSION_DENIED, "{} is no regular file", path.string());
    require_owner(path, status, *folder);
    if ((status.st_mode & S_IWOTH) != 0)
      fail(WEFT_PERMISSION_DENIED, "{} can be written by everybody", path.string());
  } catch (...) {
    ::close(file);
    throw;
  }
  return file;
}

void make_believed_folder(const fs::path& file) {
  const fs::path folder = file.parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !believed_folder(folder) || ::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(WEFT_PERMISSION_DENIED, "{} cannot be written to", folder.string());
}

}  // namespace weft::data

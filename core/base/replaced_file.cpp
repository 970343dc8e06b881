#include "base/replaced_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

// Returns the one of stdout and stderr that is this file, or -1.
int own_output(const struct stat& file) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own = {};
    if (::fstat(descriptor, &own) == 0 && is_same_file(own, file)) return descriptor;
  }
  return -1;
}

std::string temporary_prefix(const fs::path& place) {
  constexpr size_t kLongest = 200;  // of 255, so that the whole name is none that is too long
  return "." + place.filename().string().substr(0, kLongest) + ".saving-";
}

fs::path folder_of(const fs::path& place) {
  return place.has_parent_path() ? place.parent_path() : fs::path(".");
}

// Removes the temporary files of killed processes. A living one holds the lock of its file.
void remove_leftovers(const fs::path& place) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_of(place), ignored)) {
    if (!entry.path().filename().string().starts_with(temporary_prefix(place))) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    struct stat status = {};
    if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid() &&
        ::flock(file, LOCK_EX | LOCK_NB) == 0)
      ::unlink(entry.path().c_str());
    ::close(file);
  }
}

}  // namespace

fs::path without_links(const fs::path& path) {
  constexpr int kMostLinks = 40;
  fs::path place = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(place, error)); ++links) {
    if (links == kMostLinks) fail(WEFT_UNAVAILABLE, "{}: {}", printable(path.native()), std::strerror(ELOOP));
    const fs::path target = fs::read_symlink(place, error);
    if (error) break;
    place = target.is_absolute() ? target : place.parent_path() / target;
  }
  const fs::path folder = fs::weakly_canonical(fs::absolute(folder_of(place), error), error);
  return error ? place : folder / place.filename();
}

ReplacedFile::ReplacedFile(const fs::path& path, std::string named)
    : named_(named.empty() ? printable(path.native()) : std::move(named)) {
  const std::optional<struct stat> status = status_of(path);
  if (status && (!S_ISREG(status->st_mode) || own_output(*status) >= 0)) {
    open_directly(path);
    return;
  }
  // A file that its owner made read-only is not to be replaced either.
  if (status && ::access(path.c_str(), W_OK) != 0) refuse(errno);
  place_ = without_links(path);
  remove_leftovers(place_);
  create_temporary();
  if (status) keep_owner();
}

ReplacedFile::~ReplacedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

ReplacedFile::ReplacedFile(ReplacedFile&& other) noexcept
    : named_(std::move(other.named_)),
      place_(std::exchange(other.place_, {})),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void ReplacedFile::refuse(int code) const {
  fail(code == ENOSPC || code == EDQUOT || code == EFBIG ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
       "{}: cannot write there: {}", named_, std::strerror(code));
}

void ReplacedFile::open_directly(const fs::path& path) {
  const std::optional<struct stat> status = status_of(path);
  const int own = status ? own_output(*status) : -1;
  // A second description of the file would begin at its start.
  descriptor_ = own >= 0 ? ::fcntl(own, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) refuse(errno);
}

void ReplacedFile::create_temporary() {
  std::random_device random;
  for (;;) {
    temporary_ = folder_of(place_) / fmt::format("{}{:08x}", temporary_prefix(place_), random());
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) {
      temporary_.clear();
      refuse(errno);
    }
    // Another process may have taken the file for a leftover before it was locked.
    ::flock(descriptor_, LOCK_EX);
    struct stat own = {};
    const std::optional<struct stat> named = status_of(temporary_);
    if (::fstat(descriptor_, &own) == 0 && named && is_same_file(own, *named)) return;
    ::close(std::exchange(descriptor_, -1));
  }
}

// Gives the new file the permissions, and where possible the owner, of the one that it replaces.
void ReplacedFile::keep_owner() const {
  struct stat own = {};
  const std::optional<struct stat> before = status_of(place_);
  if (!before || ::fstat(descriptor_, &own) != 0) return;
  if (before->st_uid != own.st_uid || before->st_gid != own.st_gid) [[maybe_unused]]
    const int changed = ::fchown(descriptor_, before->st_uid, before->st_gid);
  ::fchmod(descriptor_, before->st_mode & 0777);
}

void ReplacedFile::restrict_to(mode_t mode) const {
  if (!temporary_.empty() && ::fchmod(descriptor_, mode) != 0) refuse(errno);
}

void ReplacedFile::write(std::string_view bytes) {
  if (const int code = write_all(descriptor_, bytes); code != 0) refuse(code);
}

void ReplacedFile::sync() {
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) refuse(errno);
}

void ReplacedFile::commit() {
  sync();
  if (::close(std::exchange(descriptor_, -1)) != 0) refuse(errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), place_.c_str()) != 0) refuse(errno);
  temporary_.clear();
  const int folder = ::open(folder_of(place_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  const int failed = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // EINVAL: this file system cannot sync a folder.
  if (failed != 0 && failed != EINVAL) refuse(failed);
}

void ReplacedFile::require_writable(const fs::path& path, const std::string& named) {
  const std::optional<struct stat> status = status_of(path);
  if (!status || S_ISREG(status->st_mode)) {
    const ReplacedFile trial(path, named);
    return;
  }
  // To open a pipe and to close it again would tell its reader that all is written.
  const int code = S_ISDIR(status->st_mode) ? EISDIR : ::access(path.c_str(), W_OK) != 0 ? errno : 0;
  if (code != 0) fail(WEFT_UNAVAILABLE, "{}: cannot write there: {}", named, std::strerror(code));
}

void replace_file(const fs::path& path, std::string_view text, const std::string& named) {
  ReplacedFile file(path, named);
  file.write(text);
  file.commit();
}

}  // namespace weft

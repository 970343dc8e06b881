#include "files/folder.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <set>

#include "base/files.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAside = ".old";

[[noreturn]] void fail_with_errno(const char* what, const fs::path& path) {
  const int code = errno;
  fail(code == ENOSPC || code == EDQUOT || code == EFBIG ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
       "cannot {} {}: {}", what, path.string(), std::strerror(code));
}

void sync_path(const fs::path& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) fail_with_errno("open", path);
  const int result = ::fsync(file);
  ::close(file);
  if (result != 0) fail_with_errno("sync", path);
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The same files under another name: hard links where the file system has them.
void link_tree(const fs::path& from, const fs::path& to) {
  if (fs::is_directory(fs::symlink_status(from))) {
    fs::create_directory(to);
    for (const fs::directory_entry& entry : fs::directory_iterator(from))
      link_tree(entry.path(), to / entry.path().filename());
    return;
  }
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy(from, to, fs::copy_options::copy_symlinks);
}

// Returns a temporary name beside `place`, which saves remove if it is left.
std::string unused_name(const fs::path& place) {
  std::random_device random;
  return fmt::format("{}{:08x}", staging_prefix(place), random());
}

// Absolute, links followed, without a slash at the end: what is replaced is the folder, not a link to it.
fs::path resolved(const fs::path& path) {
  if (path.empty()) fail(WEFT_INVALID_ARGUMENT, "the path of the folder to save to is empty");
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(fs::absolute(path), error);
  if (error) fail(WEFT_INVALID_ARGUMENT, "cannot save to {}: {}", printable(path.native()), error.message());
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

bool contains(const fs::path& folder, const fs::path& path) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

// `given` is resolved to `target`.
void check_target(const fs::path& given, const fs::path& target) {
  const std::string shown =
      given == target ? printable(target.native())
                      : fmt::format("{} ({})", printable(given.native()), printable(target.native()));
  const auto refuse = [&](const char* why) {
    fail(WEFT_INVALID_ARGUMENT,
         "{} {}, and a save replaces the whole folder at once: name another, {} for example", shown, why,
         (target / "model").string());
  };
  if (!target.has_filename()) refuse("is the root of the file system");
  if (fs::is_symlink(fs::symlink_status(target)))
    fail(WEFT_NOT_FOUND, "{} is a link to {}, which does not exist: make that folder, or name another place",
         shown, printable(fs::read_symlink(target).native()));
  fs::path above = parent_of(target);
  while (!fs::exists(above)) above = parent_of(above);
  if (!fs::is_directory(above))
    fail(WEFT_INVALID_ARGUMENT, "cannot save to {}: {} is no folder", shown, above.string());
  if (!fs::exists(target)) return;
  if (!fs::is_directory(target))
    fail(WEFT_ALREADY_EXISTS, "{} is a file; a checkpoint folder is to be written there: name another place",
         shown);
  struct stat own = {}, parent = {};
  if (::stat(target.c_str(), &own) == 0 && ::stat(parent_of(target).c_str(), &parent) == 0 &&
      own.st_dev != parent.st_dev)
    refuse("is a mount point");
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (!error && contains(target, here)) refuse("is (or holds) the folder that this process works in");
}

// What killed saves to `place` left. Nobody else saves there: this process has its lock.
void remove_leftovers(const fs::path& place) {
  const std::string prefix = staging_prefix(place);
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent_of(place), error))
    if (entry.path().filename().string().starts_with(prefix)) leftovers.push_back(entry.path());
  for (const fs::path& leftover : leftovers) {
    // Killed while the old folder had stepped aside: it comes back. A link is nothing that a save made.
    if (leftover.extension() != kAside || fs::exists(place) ||
        !fs::is_directory(fs::symlink_status(leftover)))
      fs::remove_all(leftover, error);
    else if (::rename(leftover.c_str(), place.c_str()) != 0)
      fail_with_errno("bring back", place);
  }
}

// What killed saves left inside `folder`, of its step-N/ folders. Throws UNAVAILABLE if another process is
// saving there now: it would lose its place.
void remove_leftovers_inside(const fs::path& folder) {
  std::set<std::string> places;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (const auto place = saved_place(entry.path().filename().string())) places.insert(*place);
  for (const std::string& place : places) {
    // What is no lock is held by nobody, and is not removed either.
    const fs::file_type kind = fs::symlink_status(lock_file(folder / place)).type();
    if (kind != fs::file_type::not_found && kind != fs::file_type::regular) continue;
    const FolderLock lock(folder / place);
    const FolderLock::Save save = lock.begin_save();
    remove_leftovers(folder / place);
  }
}

}  // namespace

FolderLock StagedFolder::reserve(const fs::path& path) {
  StagedFolder trial(path, [](const fs::path&) { return false; });
  write_file(trial.path() / "config.json", "{}\n");
  return trial.lock_;
}

StagedFolder::StagedFolder(const fs::path& path, const std::function<bool(const fs::path&)>& keep)
    : target_(resolved(path)) {
  check_target(path, target_);
  lock_ = FolderLock(target_);
  save_ = lock_.begin_save();
  remove_leftovers(target_);
  if (fs::is_directory(target_)) remove_leftovers_inside(target_);
  staging_.emplace(target_);
  if (fs::is_directory(target_)) link_kept(keep);
}

StagedFolder::Staging::Staging(const fs::path& target) {
  for (;;) {
    path_ = parent_of(target) / unused_name(target);
    if (::mkdir(path_.c_str(), 0777) == 0) return;
    if (errno != EEXIST) fail_with_errno("create", path_);
  }
}

StagedFolder::Staging::~Staging() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void StagedFolder::link_entries(const fs::path& folder, const std::function<bool(const fs::path&)>& accepts) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const fs::path place = path() / entry.path().filename();
      if (!accepts(entry.path().filename())) continue;
      fs::remove_all(place);
      link_tree(entry.path(), place);
    }
  } catch (const fs::filesystem_error& e) {
    fail(e.code() == std::errc::no_space_on_device ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
         "cannot take over the files of {}: {}", folder.string(), e.what());
  }
}

void StagedFolder::link_kept(const std::function<bool(const fs::path&)>& keep) {
  std::error_code error;
  fs::permissions(path(), fs::status(target_, error).permissions(), error);
  if (error)
    fail(WEFT_UNAVAILABLE, "cannot take over the permissions of {}: {}", target_.string(), error.message());
  link_entries(target_, keep);
}

void StagedFolder::link(const fs::path& folder) {
  link_entries(folder, [](const fs::path&) { return true; });
}

void StagedFolder::publish() {
  const fs::path& staging = path();
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(staging)) {
    const fs::file_status kind = entry.symlink_status();
    if (fs::is_directory(kind)) sync_path(entry.path(), O_RDONLY | O_DIRECTORY);
    if (fs::is_regular_file(kind)) sync_path(entry.path(), O_RDONLY);
  }
  sync_path(staging, O_RDONLY | O_DIRECTORY);
  if (!fs::exists(target_)) {
    if (::rename(staging.c_str(), target_.c_str()) != 0) fail_with_errno("put in place", target_);
  } else if (::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system without exchange: the old folder steps aside and comes back if the new one cannot take
    // its place.
    const fs::path aside = staging.string() + kAside;
    if (::rename(target_.c_str(), aside.c_str()) != 0) fail_with_errno("replace", target_);
    if (::rename(staging.c_str(), target_.c_str()) != 0) {
      const int code = errno;
      ::rename(aside.c_str(), target_.c_str());
      errno = code;
      fail_with_errno("put in place", target_);
    }
    std::error_code ignored;
    fs::remove_all(aside, ignored);
  }
  sync_path(parent_of(target_), O_RDONLY | O_DIRECTORY);
}

void write_file(const fs::path& path, const std::string& text, uint64_t max_bytes) {
  if (text.size() > max_bytes)
    fail(
        WEFT_RESOURCE_EXHAUSTED,
        "cannot write {}: it would have {} bytes, and of such a file at most {} are read; save fewer tensors "
        "in one folder, or from fewer ranks",
        path.string(), text.size(), max_bytes);
  // A new file: what has the name now can be a link, or the file of the folder that this one replaces.
  std::error_code ignored;
  fs::remove(path, ignored);
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) fail_with_errno("create", path);
  if (const int code = write_all(file, text); code != 0) {
    ::close(file);
    errno = code;
    fail_with_errno("write", path);
  }
  const int synced = ::fsync(file);
  ::close(file);
  if (synced != 0) fail_with_errno("sync", path);
}

void replace_link(const fs::path& path, const fs::path& target) {
  const fs::file_status present = fs::symlink_status(path);
  if (fs::exists(present) && !fs::is_symlink(present))
    fail(WEFT_ALREADY_EXISTS, "{} is no link, and a link is to be made there", path.string());
  const fs::path made = parent_of(path) / unused_name(path);
  if (::symlink(target.c_str(), made.c_str()) != 0) fail_with_errno("create", made);
  if (::rename(made.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(made.c_str());
    errno = code;
    fail_with_errno("put in place", path);
  }
  sync_path(parent_of(path), O_RDONLY | O_DIRECTORY);
}

void remove_folder(const fs::path& path) {
  const fs::path place = resolved(path);
  const FolderLock lock(place);
  const FolderLock::Save save = lock.begin_save();
  const fs::path aside = parent_of(place) / unused_name(place);
  if (::rename(place.c_str(), aside.c_str()) != 0) fail_with_errno("remove", place);
  std::error_code error;
  fs::remove_all(aside, error);
  if (error) fail(WEFT_UNAVAILABLE, "cannot remove {}: {}", aside.string(), error.message());
}

void replace_file(const fs::path& path, const std::string& text) {
  const fs::path place = resolved(path);
  const FolderLock lock(place);
  const FolderLock::Save save = lock.begin_save();
  weft::replace_file(place, text);
}

}  // namespace weft::checkpoint

#include "checkpoint/folder.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_with_errno(const char* what, const fs::path& path) {
  const int code = errno;
  fail(code == ENOSPC || code == EDQUOT ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE, "cannot {} {}: {}", what, path.string(),
       std::strerror(code));
}

void sync_path(const fs::path& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) fail_with_errno("open", path);
  const int result = ::fsync(file);
  ::close(file);
  if (result != 0) fail_with_errno("sync", path);
}

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// The same files under another name: hard links where the file system has them.
void link_tree(const fs::path& from, const fs::path& to) {
  if (fs::is_directory(fs::symlink_status(from))) {
    fs::create_directory(to);
    for (const fs::directory_entry& entry : fs::directory_iterator(from)) link_tree(entry.path(), to / entry.path().filename());
    return;
  }
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy(from, to, fs::copy_options::copy_symlinks);
}

fs::path without_slash(fs::path path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

bool is_weight_file(const std::string& name) {
  const auto ends = [&](const char* suffix) { return name.ends_with(suffix); };
  return ends(".safetensors") || ends(".safetensors.index.json") || ends(".bin.index.json") ||
         (name.starts_with("pytorch_model") && ends(".bin"));
}

StagedFolder::StagedFolder(const fs::path& path, const std::function<bool(const fs::path&)>& keep)
    : target_(without_slash(path)),
      staging_(parent_of(target_) / ("." + target_.filename().string() + ".saving-" + std::to_string(::getpid()))) {
  if (fs::exists(target_) && !fs::is_directory(target_))
    fail(WEFT_ALREADY_EXISTS, "{} is a file; a checkpoint folder is to be written there: name another place", target_.string());
  std::error_code error;
  fs::create_directories(parent_of(target_), error);
  fs::remove_all(staging_, error);
  if (!fs::create_directory(staging_, error)) {
    errno = error.value();
    fail_with_errno("create", staging_);
  }
  if (!fs::is_directory(target_)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(target_))
    if (keep(entry.path().filename())) link_tree(entry.path(), staging_ / entry.path().filename());
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
}

void StagedFolder::publish() {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(staging_))
    sync_path(entry.path(), entry.is_directory() ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  sync_path(staging_, O_RDONLY | O_DIRECTORY);
  if (!fs::exists(target_)) {
    if (::rename(staging_.c_str(), target_.c_str()) != 0) fail_with_errno("put in place", target_);
  } else if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system without exchange: the old folder steps aside and comes back if the new one cannot take its place.
    const fs::path aside = staging_.string() + ".old";
    if (::rename(target_.c_str(), aside.c_str()) != 0) fail_with_errno("replace", target_);
    if (::rename(staging_.c_str(), target_.c_str()) != 0) {
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

void write_file(const fs::path& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) fail_with_errno("create", path);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      ::close(file);
      errno = code;
      fail_with_errno("write", path);
    }
    done += static_cast<size_t>(count);
  }
  const int synced = ::fsync(file);
  ::close(file);
  if (synced != 0) fail_with_errno("sync", path);
}

void replace_file(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + ".saving-" + std::to_string(::getpid());
  try {
    write_file(temporary, text);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_with_errno("put in place", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(parent_of(path), O_RDONLY | O_DIRECTORY);
}

}  // namespace weft::checkpoint

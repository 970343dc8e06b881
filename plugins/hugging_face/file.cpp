#include "file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checksum.hpp"
#include "text.hpp"

namespace weft::hugging_face {
namespace {

weft_status status_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return WEFT_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
      return WEFT_PERMISSION_DENIED;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return WEFT_RESOURCE_EXHAUSTED;
    default:
      return WEFT_UNAVAILABLE;
  }
}

[[noreturn]] void fail_with_errno(int error_number, std::string_view action, const std::string& path) {
  fail(status_of(error_number), "cannot ", action, " ", path, ": ", system_error(error_number));
}

// Who holds a lock stands in its file, for the messages of others: a disk without room for that is no reason
// to fail.
void write_holder(int descriptor) {
  char host[256] = {}, time[32] = {};
  gethostname(host, sizeof(host) - 1);
  const time_t now = std::time(nullptr);
  tm utc{};
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
  const std::string text = concat("process ", getpid(), " on ", host, " since ", time);
  if (ftruncate(descriptor, 0) == 0) [[maybe_unused]]
    const ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
}

std::string read_holder(int descriptor) {
  char text[400];
  const ssize_t size = pread(descriptor, text, sizeof(text), 0);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "another process";
}

}  // namespace

std::string system_error(int error_number) {
  return std::generic_category().message(error_number);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_with_errno(errno, "open", path_);
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    fail(WEFT_INVALID_ARGUMENT, path_, " is not a regular file");
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  size_ = static_cast<std::size_t>(status.st_size);
  void* mapped = size_ == 0 ? nullptr : mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error_number = errno;
  ::close(descriptor);
  if (mapped == MAP_FAILED) fail_with_errno(error_number, "map", path_);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::check_size() const {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0 || status.st_dev != device_ || status.st_ino != inode_) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < size_) {
    fail(WEFT_DATA_LOSS, path_, ": this file became shorter while it was mapped: it had ", size_,
         " bytes and now has ", size);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      device_(other.device_),
      inode_(other.inode_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
bool is_lfs_pointer(Bytes bytes) {
  return as_text(bytes).starts_with("version https://git-lfs.github.com/spec/");
}

void refuse_lfs_pointer(const MappedFile& file) {
  if (!is_lfs_pointer(file.bytes())) return;
  fail(WEFT_DATA_LOSS, file.path(), " is a Git LFS pointer of ", file.bytes().size(),
       " bytes in place of the file that it names; install git-lfs and run `git lfs pull` in that folder");
}

std::string partial_path(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / ("." + whole.filename().string() + ".partial")).string();
}

OutputFile::OutputFile(std::string path, uint64_t size) : path_(std::move(path)), size_(size) {
  const std::string partial = partial_path(path_);
  // Create a new file: one that a killed save left can be mapped or linked elsewhere.
  unlink(partial.c_str());
  descriptor_ = open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_with_errno(errno, "create", partial);
  try {
    reserve();
  } catch (...) {
    remove();
    throw;
  }
}

OutputFile::~OutputFile() {
  if (is_owned_) remove();
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_owned_(std::exchange(other.is_owned_, false)) {}

void OutputFile::reserve() {
  if (size_ == 0) return;
  const int error_number = posix_fallocate(descriptor_, 0, static_cast<off_t>(size_));
  if (error_number == 0) return;
  std::string room;
  struct statvfs disk {};
  if (fstatvfs(descriptor_, &disk) == 0) {
    room = concat("; the disk has ", static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize, " bytes free");
  }
  fail(status_of(error_number), "cannot reserve ", size_, " bytes for ", path_, ": ",
       system_error(error_number), room);
}

void OutputFile::write(uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_with_errno(written < 0 ? errno : EIO, "write to", partial_path(path_));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
}

uint32_t OutputFile::checksum(uint64_t offset, uint64_t size) const {
  if (size == 0) return 0;
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) fail_with_errno(errno, "map", partial_path(path_));
  const uint32_t sum = crc32({static_cast<const std::byte*>(mapped) + offset, size});
  munmap(mapped, size_);
  return sum;
}

void OutputFile::sync() {
  if (fsync(descriptor_) != 0) fail_with_errno(errno, "sync", partial_path(path_));
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) fail_with_errno(errno, "close", partial_path(path_));
}

void OutputFile::remove() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  unlink(partial_path(path_).c_str());
  is_owned_ = false;
}

// Opens the file of a lock, or makes it. In a folder that others can write to, anything may have its name:
// this follows no link, and says whether the file is this user's, who alone writes to it and removes it.
void SaveLock::open_file(const std::string& what) {
  const auto refuse = [&](std::string_view why) {
    fail(WEFT_PERMISSION_DENIED, "cannot save to ", what, ": ", path_, why, "; remove it");
  };
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | kFlags, 0666);
  // A lock of another user, which can be locked all the same.
  if (descriptor_ < 0 && errno == EACCES) descriptor_ = open(path_.c_str(), O_RDONLY | kFlags);
  if (descriptor_ < 0 && errno == ELOOP) refuse(" is a link, which a lock does not follow");
  if (descriptor_ < 0) fail_with_errno(errno, "save to " + what + ": cannot create", path_);
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    refuse(" is no regular file, so it cannot be a lock");
  }
  is_own_ = status.st_uid == geteuid() && status.st_nlink <= 1;
}

SaveLock::SaveLock(std::string path, const std::string& what) : path_(std::move(path)) {
  for (;;) {
    open_file(what);
    // On a file system without locks, saves still work but do not exclude each other.
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      const std::string holder = read_holder(descriptor_);
      ::close(descriptor_);
      fail(WEFT_UNAVAILABLE, "another save to ", what, " is under way, by ", holder, " (it holds ", path_,
           "); wait for it to end");
    }
    // The previous holder removes the file, so the lock is valid only if the file still has this name.
    struct stat named {
    }, held{};
    if (lstat(path_.c_str(), &named) == 0 && fstat(descriptor_, &held) == 0 && named.st_ino == held.st_ino) {
      if (is_own_) write_holder(descriptor_);
      return;
    }
    ::close(descriptor_);
  }
}

SaveLock::~SaveLock() {
  if (is_own_) unlink(path_.c_str());
  ::close(descriptor_);
}

void install_file(const std::string& path, bool again) {
  if (std::rename(partial_path(path).c_str(), path.c_str()) == 0 || (again && errno == ENOENT)) return;
  fail_with_errno(errno, "rename a complete file to", path);
}

void sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with_errno(errno, "open", folder);
  const int failed = fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // EINVAL: this file system cannot sync a folder.
  if (failed != 0 && failed != EINVAL) fail_with_errno(failed, "sync", folder);
}

}  // namespace weft::hugging_face

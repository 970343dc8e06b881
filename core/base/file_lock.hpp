// The lock of a file, which one process at a time holds.
#pragma once

#include <sys/file.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace weft {

// The process that holds a lock.
struct LockHolder {
  std::string host, start, since;  // `start` tells the process from a later one with the same number
  int64_t process = 0;

  // Returns "process 812 on host a, since 2026-11-28 09:00:00 UTC, which is stopped (SIGSTOP)".
  std::string text() const;
  // Returns whether it was a process of this host that has ended.
  bool has_ended() const;
};

// An exclusive lock of the kernel (flock, which NFS forwards to its server) on a file. It excludes other
// processes and ends with its own. The file is made for the lock and names the holder.
//
// Anything may have the name of the file where others can write to its folder. So links are not followed,
// only regular files are locked, and a file of another user is locked as it is: it is neither written to nor
// removed.
class FileLock {
 public:
  using Flock = int (*)(int descriptor, int operation);
  // What becomes of the file when the lock is released, and what counts on a file system without locks, such
  // as some NFS mounts.
  enum class AtEnd {
    kRemove,  // that the file exists, except for that of a process of this host that has ended
    kKeep,    // nothing: every process gets the lock
  };

  // Takes no lock yet. Tests replace `flock`.
  explicit FileLock(std::filesystem::path file, AtEnd at_end = AtEnd::kRemove, Flock flock = ::flock);
  // Releases the lock. Only closes the file in a child of the process that took the lock.
  ~FileLock();
  FileLock(const FileLock&) = delete;

  // Takes the lock, or returns false if another process holds it. Throws, with the path: PERMISSION_DENIED
  // for a link and for what is no regular file or cannot be opened; RESOURCE_EXHAUSTED on a full disk;
  // UNAVAILABLE if the file cannot be made for another reason.
  [[nodiscard]] bool try_lock();
  // Returns who holds the lock that try_lock() did not get, as far as the kernel or the file tell.
  std::optional<LockHolder> holder() const;
  const std::filesystem::path& file() const { return file_; }

  // Gives the file the present time, at most ten times a second, which shows those who wait for the lock that
  // its holder makes progress. Does nothing with a file of another user. Any thread.
  void touch() const;
  // Leaves a text for the processes that wait for this lock now, which get it from left() when they have the
  // lock. Only texts of the same user and of root are believed.
  void leave(const std::string& text);
  const std::string& left() const { return left_; }

  // Returns whether some process holds the lock of this file, and who: its text(), or "another process". What
  // cannot be locked is held by nobody. A process that tries to take the lock at that instant does not get
  // it.
  static std::optional<std::string> find_holder(const std::filesystem::path& file, Flock flock = ::flock);

 private:
  bool open();
  void close();
  bool has_name() const;
  bool may_take_over() const;
  void take();
  void write(const std::string& left) const;

  const std::filesystem::path file_;
  const AtEnd at_end_;
  const Flock flock_;
  int descriptor_ = -1;
  bool is_own_ = false;       // whether the file may be written to and removed
  bool is_believed_ = false;  // whether what it says is of this user or root
  bool has_lock_ = false, has_waited_ = false;
  int process_ = 0;  // which has the lock; a child of it has a copy of this object
  std::string left_;
  mutable std::atomic<int64_t> touched_ms_ = 0;
};

}  // namespace weft

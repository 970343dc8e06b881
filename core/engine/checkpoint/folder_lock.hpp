// One process at a time saves to a place.
#pragma once

#include <sys/file.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace weft::checkpoint {

// Locks a folder or file for saves. The lock file ".NAME.saving.lock" beside it contains the host, the
// process and the time of the holder. The kernel's lock on that file (flock, which NFS forwards to its
// server) excludes other processes and ends with its process. On a file system without locks the existence of
// the file counts: the lock of a dead process of this host is taken over, that of another host has to be
// removed by hand.
//
// All locks of one place in one process share the file. Creates the folders above the place, and removes them
// at the end if they are still empty.
class FolderLock {
 public:
  using Flock = int (*)(int descriptor, int operation);

  FolderLock() = default;  // holds nothing
  // Locks `place`, an absolute path without links. Throws UNAVAILABLE that names the holder of the lock, or
  // with the error of the system if the file cannot be created. Tests replace `flock`.
  explicit FolderLock(const std::filesystem::path& place, Flock flock = ::flock);

  // A save under a lock, until it is destroyed. Keeps the lock.
  class Save;
  // Begins a save under this lock. Throws FAILED_PRECONDITION if this process is saving there already.
  [[nodiscard]] Save begin_save() const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

class FolderLock::Save {
 public:
  Save() = default;  // of nothing
  ~Save();
  Save(Save&&) = default;
  Save& operator=(Save&& other) noexcept;
  Save(const Save&) = delete;

 private:
  friend FolderLock;
  explicit Save(std::shared_ptr<Held> held) : held_(std::move(held)) {}
  std::shared_ptr<Held> held_;
};

// Returns the place to which a lock file or a temporary folder of this name belongs: "out" for
// ".out.saving-1b2f09ac". Nothing for other names.
std::optional<std::string> saved_place(const std::string& name);
// Returns the begin of the names of temporary folders and files: ".out.saving-" for "out".
std::string staging_prefix(const std::filesystem::path& place);

}  // namespace weft::checkpoint

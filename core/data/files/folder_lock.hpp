// One process at a time saves to a place.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file_lock.hpp"

namespace weft::checkpoint {

// Locks a folder or file for saves, by the lock of the file ".NAME.saving.lock" beside it. Excludes other
// processes from the place, from every place inside it, and from every folder that contains it: a save
// replaces a folder with all that is in it. Of two processes that lock a folder and a place inside it, the
// later one fails.
//
// Nothing is written to the folders above: the process looks there for locks that are held, and in the
// folders below. Each process takes its own lock before it looks, so at least one of two sees the other. If
// both do, at the same moment, the inner one gives up.
//
// All locks of one place in one process share the file, and do not exclude the process from places inside or
// outside. Creates the folders above the place, and removes them at the end if they are still empty.
class FolderLock {
 public:
  FolderLock() = default;  // holds nothing
  // Locks `place`, an absolute path without links. Throws UNAVAILABLE that names the holder of the lock, or
  // with the error of the system if the file cannot be created. Tests replace `flock`.
  explicit FolderLock(const std::filesystem::path& place, FileLock::Flock flock = ::flock);

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
// Returns the path of the lock file of a place.
std::filesystem::path lock_file(const std::filesystem::path& place);
// Returns the begin of the names of temporary folders and files: ".out.saving-" for "out".
std::string staging_prefix(const std::filesystem::path& place);

}  // namespace weft::checkpoint

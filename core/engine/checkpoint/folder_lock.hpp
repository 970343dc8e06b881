// One process at a time saves to a place.
#pragma once

#include <sys/file.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace weft::checkpoint {

// The right to save to a place, a folder or a file. Beside it lies ".NAME.saving.lock" as long as somebody
// has that right, with host, process and time. It is the kernel's lock (flock, which NFS hands to its server)
// that excludes others, so a process that dies frees it. Where a file system has no locks the file alone
// counts, and one of a dead process of this host is taken over; that of another host has to be removed by
// hand.
//
// A process that has the lock gets it again; copies share it. Folders above the place are made, and removed
// at the end if they are still empty.
class FolderLock {
 public:
  using Flock = int (*)(int descriptor, int operation);

  FolderLock() = default;  // holds nothing
  // `place`: absolute, links followed. Throws UNAVAILABLE naming who has the lock, and what the system says
  // if the file cannot be made. `flock`: for tests.
  explicit FolderLock(const std::filesystem::path& place, Flock flock = ::flock);

  // Begins a save under this lock. Throws FAILED_PRECONDITION if one of this process is under way.
  void begin_save() const;
  void end_save() const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// The place whose lock or staging folder has this name, nothing for other names: ".out.saving-1b2f09ac" is of
// "out".
std::optional<std::string> saved_place(const std::string& name);
// ".out.saving-": names of what is written on behalf of "out" begin so.
std::string staging_prefix(const std::filesystem::path& place);

}  // namespace weft::checkpoint

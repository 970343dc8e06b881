// A folder that is created for files which may not come.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace weft {

// Creates a folder and the folders above it where they are missing. The destructor removes those that it
// created and that are still empty; in a fork of the process it does nothing.
class MadeFolder {
 public:
  // Throws UNAVAILABLE, "cannot create PATH: WHY".
  explicit MadeFolder(const std::filesystem::path& path);
  ~MadeFolder();
  MadeFolder(const MadeFolder&) = delete;

 private:
  void remove() const;

  const pid_t process_;
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace weft

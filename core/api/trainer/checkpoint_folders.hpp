// The folder of a training: its step-N/, and `best`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/folder_lock.hpp"
#include "weft/world.hpp"

namespace weft {

// The name of a step's folder: "step-12".
std::string step_folder_name(int64_t step);

class CheckpointFolders {
 public:
  // Tries to save to `folder` on the master, also to a step-N/ in it if `with_steps`, and keeps other jobs
  // from saving there. Throws on every rank; ALREADY_EXISTS if `with_best` and something other than a link
  // is called `best`. Collective.
  CheckpointFolders(const std::string& folder, bool with_steps, bool with_best, const World& world);

  // What this training has saved, which its checkpoints know of each other. The name of the run tells its
  // folders from those of others.
  std::string run;
  std::vector<int64_t> steps;  // of step-N/, in ascending order
  std::optional<int64_t> best;

  // Returns the folder of a step. A link of that name is removed on the master: a save would follow it.
  std::string of_step(int64_t step) const;
  const std::string& path() const { return folder_; }
  // Adds a step that is about to be saved.
  void add(int64_t step);
  // Makes `best` a link to the best step's folder, if that is there, on the master. Throws on every rank.
  // Collective.
  void link_best() const;
  // Removes all step-N/ of this run but the `keep_last` newest and the best, on the master, and forgets them.
  // One that cannot be removed is a warning.
  void prune(int64_t keep_last);
  // Puts the best step's files into the folder itself, on the master. Returns false on every rank if that
  // step is not there. Collective.
  bool end_with_best() const;

 private:
  bool is_own(int64_t step) const;

  std::filesystem::path step_path(int64_t step) const;
  std::string folder_;
  World world_;
  checkpoint::FolderLock lock_;
};

}  // namespace weft

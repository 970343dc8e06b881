// When and where `weft train` saves, and from which folder it resumes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "command/arguments.hpp"
#include "files/folder.hpp"
#include "weft/booster.hpp"

namespace weft::command {

struct SavePlan {
  std::string folder;  // empty: do not save
  int64_t every = 0;   // steps between two step-N/ folders; 0: save only at the end
  bool background = false;

  // Whether a step of `total` is one after which the job saves.
  bool is_due(int64_t step, int64_t total) const {
    return !folder.empty() && (step == total || (every > 0 && step % every == 0));
  }
  // Returns the folder of a step. A link of that name is removed on the master: a save would follow it, as it
  // follows one that --output names.
  std::string step_folder(int64_t step, const World& world) const;
};

// Tries to save on the master, before the first step, and keeps other jobs from saving to the same folder.
checkpoint::FolderLock reserve(const SavePlan& save, const std::string& format, const World& world);

// Saves what a failed comparison has left to the folder "NAME.unverified". `begun`: the steps with which the
// job began. Collective.
void save_unverified(Booster& booster, const Job& job, const SavePlan& save, int64_t begun);

// Returns the folder itself or one of its step-N/ folders, whichever was saved last. Folders of
// save_unverified() count only if `path` is one. Throws NOT_FOUND if there is none.
std::string resume_folder(const std::string& path);

// The time that a job has between the signals that ask it to stop and kill it.
class Grace {
 public:
  explicit Grace(const Settings& arguments);

  // Whether one more step like this one, which takes longer with a comparison, and a save fit into it, as
  // the master sees it, which says so if not. The signal may have come when this step began. Collective.
  bool allows_step(const Booster& booster, const StepResult& step) const;
  // Warns once of saves that take longer.
  void look_at(const Booster& booster);

 private:
  std::chrono::milliseconds grace_;
  bool is_given_, told_ = false;
};

}  // namespace weft::command

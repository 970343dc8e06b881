// What a signal and a failed comparison do to the checkpoints of `weft train`, and from which folder it
// resumes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "command/arguments.hpp"
#include "weft/hooks.hpp"
#include "weft/stop_signals.hpp"

namespace weft::command {

// Saves what a failed comparison has left to the folder "NAME.unverified". `begun`: the steps with which the
// job began. Collective.
void save_unverified(Trainer& trainer, const std::string& folder, int64_t begun);

// Returns the folder itself or one of its step-N/ folders, whichever was saved last. Folders of
// save_unverified() count only if `path` is one. Throws NOT_FOUND if there is none.
std::string resume_folder(const std::string& path);

// Ends a training after a signal, within the time between the signals that ask it to stop and kill it: at
// once, or after one more step, which compares what is saved.
class StopAfterSignal final : public Hook {
 public:
  // `saves`: whether there is a folder to save to.
  StopAfterSignal(const Settings& arguments, bool saves);

  // What stopped the training, after it; nothing if no signal did.
  const std::optional<StopSignals::Stop>& stop() const { return stop_; }

  std::string name() const override { return "stop_after_signal"; }
  void begin(Trainer& trainer) override;
  void before_step(Trainer& trainer) override;
  void after_step(Trainer& trainer) override;
  // Warns once of saves that take longer.
  void after_save(Trainer& trainer, const std::string& folder) override;
  void end(Trainer& trainer) override;

 private:
  // Whether one more step like this one, which takes longer with a comparison, and a save fit into it, as
  // the master sees it, which says so if not. The signal may have come when this step began. Collective.
  bool allows_step(const Trainer& trainer) const;

  std::optional<StopSignals> signals_;
  std::optional<StopSignals::Stop> stop_;
  std::chrono::milliseconds grace_;
  bool is_given_, saves_, told_ = false, asked_ = false;
};

}  // namespace weft::command

#include "command/saves.hpp"

#include <filesystem>
#include <optional>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "checkpoint/training_state.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

constexpr const char* kUnverified = ".unverified";
constexpr std::chrono::milliseconds kUsualGrace{30'000};  // of SLURM and Kubernetes

}  // namespace

void save_unverified(Trainer& trainer, const std::string& folder, int64_t begun) {
  if (folder.empty() || trainer.job().optimizer.steps() == begun) return;
  fs::path place = fs::path(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  place += kUnverified;
  trainer.save(place.string(), {.unverified = true});
  trainer.booster().world().print_on_master(
      fmt::format("saved {} after step {}, because of the error that follows; nothing but --resume with this "
                  "name takes it",
                  place.string(), trainer.job().optimizer.steps()));
}

std::string resume_folder(const std::string& path) {
  fs::path newest;
  const auto saved_at = [](const fs::path& folder) -> std::optional<int64_t> {
    const std::optional<json> state = checkpoint::saved_state(folder / checkpoint::kStateFolder);
    return state ? std::optional(state->at("saved_at").get<int64_t>()) : std::nullopt;
  };
  std::optional<int64_t> time = saved_at(path);
  if (time) newest = path;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    if (!entry.path().filename().string().starts_with("step-")) continue;
    const std::optional<int64_t> saved = saved_at(entry.path());
    if (!saved || (time && *saved < *time) || entry.path().extension() == kUnverified) continue;
    time = saved;
    newest = entry.path();
  }
  if (!time)
    fail(WEFT_NOT_FOUND,
         "--resume {}: no training_state/ there and no step-N/ folder with one; save with --output first",
         path);
  return newest.string();
}

StopAfterSignal::StopAfterSignal(const Settings& arguments, bool saves)
    : grace_(arguments.given("grace") ? milliseconds_of("--grace", arguments.real("grace")) : kUsualGrace),
      is_given_(arguments.given("grace")),
      saves_(saves) {}

void StopAfterSignal::begin(Trainer& trainer) {
  signals_.emplace(trainer.job());
}

void StopAfterSignal::before_step(Trainer& trainer) {
  if (asked_) trainer.check_step();
}

void StopAfterSignal::after_step(Trainer& trainer) {
  if (!trainer.result().stop) return;
  // What is saved then was compared: by this step, or by one more.
  const bool compares = trainer.booster().options().check_agreement >= 0 && saves_;
  const bool last = trainer.step() == trainer.total_steps();
  if (asked_ || trainer.result().checked || !compares || last || !allows_step(trainer)) return;
  asked_ = true;
  trainer.postpone_stop();
}

bool StopAfterSignal::allows_step(const Trainer& trainer) const {
  constexpr double kSteps = 4;
  const std::chrono::duration<double> needed =
      std::chrono::duration<double>(kSteps * trainer.result().seconds) + trainer.booster().last_save_time();
  const World& world = trainer.booster().world();
  if (!world.communicator().broadcast_text(needed <= grace_ ? "yes" : "", 0).empty()) return true;
  world.print_on_master(fmt::format(
      "what the ranks did in the last step is not compared before the save: another step and the save may "
      "take longer than {}",
      seconds_text(grace_)));
  return false;
}

void StopAfterSignal::after_save(Trainer& trainer, const std::string& /*folder*/) {
  const std::chrono::nanoseconds took = trainer.booster().last_save_time();
  if (told_ || took <= grace_) return;
  told_ = true;
  trainer.booster().world().print_on_master(fmt::format(
      "warning: the last save took {}, but the job {} only {} between SIGTERM and SIGKILL; leave it more "
      "time, or the checkpoint at the end may be lost ({})",
      seconds_text(took), is_given_ ? "has" : "may have", seconds_text(grace_),
      is_given_ ? "--grace" : "--grace SECONDS tells how much there is"));
}

void StopAfterSignal::end(Trainer& trainer) {
  if (!trainer.result().stop) return;
  const World& world = trainer.booster().world();
  stop_ = signals_->agree(world);
  world.print_on_master(
      fmt::format("stopped after step {} of {} ({})", trainer.step(), trainer.total_steps(), stop_->text));
}

}  // namespace weft::command

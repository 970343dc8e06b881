#include "command/saves.hpp"

#include <filesystem>
#include <optional>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "checkpoint/training_state.hpp"
#include "files/formats.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

constexpr const char* kUnverified = ".unverified";
constexpr std::chrono::milliseconds kUsualGrace{30'000};  // of SLURM and Kubernetes

}  // namespace

std::string SavePlan::step_folder(int64_t step, const World& world) const {
  const fs::path path = fs::path(folder) / fmt::format("step-{}", step);
  std::error_code ignored;
  if (world.is_master() && fs::is_symlink(fs::symlink_status(path, ignored))) fs::remove(path, ignored);
  return path.string();
}

checkpoint::FolderLock reserve(const SavePlan& save, const std::string& format, const World& world) {
  checkpoint::FolderLock lock;
  if (save.folder.empty()) return lock;
  checkpoint::format_named(format);
  world.priority_execution([&] {
    if (!world.is_master()) return;
    lock = checkpoint::StagedFolder::reserve(save.folder);
    if (save.every > 0) checkpoint::StagedFolder::reserve(save.step_folder(save.every, world));
  });
  return lock;
}

void save_unverified(Booster& booster, const Job& job, const SavePlan& save, int64_t begun) {
  if (save.folder.empty() || job.optimizer.steps() == begun) return;
  fs::path folder = fs::path(save.folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  folder += kUnverified;
  booster.save_training(job, folder.string(), {.unverified = true});
  booster.world().print_on_master(
      fmt::format("saved {} after step {}, because of the error that follows; nothing but --resume with this "
                  "name takes it",
                  folder.string(), job.optimizer.steps()));
}

std::string resume_folder(const std::string& path) {
  fs::path newest;
  std::optional<int64_t> time = checkpoint::saved_at(fs::path(path) / "training_state");
  if (time) newest = path;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    if (!entry.path().filename().string().starts_with("step-")) continue;
    const std::optional<int64_t> saved = checkpoint::saved_at(entry.path() / "training_state");
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

Grace::Grace(const Settings& arguments)
    : grace_(arguments.given("grace") ? milliseconds_of("--grace", arguments.real("grace")) : kUsualGrace),
      is_given_(arguments.given("grace")) {}

bool Grace::allows_step(const Booster& booster, const StepResult& step) const {
  constexpr double kSteps = 4;
  const std::chrono::duration<double> needed =
      std::chrono::duration<double>(kSteps * step.seconds) + booster.last_save_time();
  const World& world = booster.world();
  if (!world.communicator().broadcast_text(needed <= grace_ ? "yes" : "", 0).empty()) return true;
  world.print_on_master(fmt::format(
      "what the ranks did in the last step is not compared before the save: another step and the save may "
      "take longer than {}",
      seconds_text(grace_)));
  return false;
}

void Grace::look_at(const Booster& booster) {
  const std::chrono::nanoseconds took = booster.last_save_time();
  if (told_ || took <= grace_) return;
  told_ = true;
  booster.world().print_on_master(fmt::format(
      "warning: the last save took {}, but the job {} only {} between SIGTERM and SIGKILL; leave it more "
      "time, or the checkpoint at the end may be lost ({})",
      seconds_text(took), is_given_ ? "has" : "may have", seconds_text(grace_),
      is_given_ ? "--grace" : "--grace SECONDS tells how much there is"));
}

}  // namespace weft::command

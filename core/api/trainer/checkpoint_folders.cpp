#include "trainer/checkpoint_folders.hpp"

#include <algorithm>
#include <random>

#include "base/text.hpp"
#include "checkpoint/training_state.hpp"
#include "comm/agreement.hpp"
#include "files/folder.hpp"
#include "log.hpp"
#include "opening/model_snapshot.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr const char* kBest = "best";

std::string new_run() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

std::string step_folder_name(int64_t step) {
  return fmt::format("step-{}", step);
}

CheckpointFolders::CheckpointFolders(const std::string& folder, bool with_steps, bool with_best,
                                     const World& world)
    : folder_(folder), world_(world) {
  run = world.communicator().broadcast_text(new_run(), 0);
  on_master(world.communicator(), [&] {
    lock_ = checkpoint::StagedFolder::reserve(folder);
    if (with_steps) checkpoint::StagedFolder::reserve(of_step(0));
    const fs::path link = fs::path(folder) / kBest;
    if (with_best && fs::exists(fs::symlink_status(link)) && !fs::is_symlink(fs::symlink_status(link)))
      fail(WEFT_ALREADY_EXISTS,
           "{} is no link, and a link of this name is to stand for the best step: move it away, or save to "
           "another folder",
           link.string());
  });
}

fs::path CheckpointFolders::step_path(int64_t step) const {
  return fs::path(folder_) / step_folder_name(step);
}

std::string CheckpointFolders::of_step(int64_t step) const {
  const fs::path path = step_path(step);
  std::error_code ignored;
  if (world_.is_master() && fs::is_symlink(fs::symlink_status(path, ignored))) fs::remove(path, ignored);
  return path.string();
}

void CheckpointFolders::add(int64_t step) {
  std::erase_if(steps, [&](int64_t known) { return known >= step; });  // of before a resume
  steps.push_back(step);
}

void CheckpointFolders::link_best() const {
  if (!best) return;
  on_master(world_.communicator(), [&] {
    if (fs::is_directory(step_path(*best)))
      checkpoint::replace_link(fs::path(folder_) / kBest, step_folder_name(*best));
  });
}

// Whether a step's folder is one that this run saved.
bool CheckpointFolders::is_own(int64_t step) const {
  const std::optional<nlohmann::json> state =
      checkpoint::saved_state(step_path(step) / checkpoint::kStateFolder);
  if (!state || !state->contains("hooks")) return false;
  const nlohmann::json hooks = state->at("hooks");
  const nlohmann::json own =
      nlohmann::json::parse(hooks.value("checkpoints", ""), nullptr, /*allow_exceptions=*/false);
  return own.is_object() && own.value("run", "") == run;
}

void CheckpointFolders::prune(int64_t keep_last) {
  if (keep_last <= 0 || static_cast<int64_t>(steps.size()) <= keep_last) return;
  const auto end = steps.end() - keep_last;
  for (auto step = steps.begin(); step != end && world_.is_master(); ++step) {
    if (*step == best) continue;
    try {
      if (is_own(*step)) checkpoint::remove_folder(step_path(*step));
    } catch (const std::exception& e) {
      log(WEFT_LOG_WARNING, fmt::format("{} could not be removed: {}", step_path(*step).string(), e.what()));
    }
  }
  steps.erase(std::remove_if(steps.begin(), end, [&](int64_t step) { return step != best; }), end);
}

bool CheckpointFolders::end_with_best() const {
  bool found = false;
  on_master(world_.communicator(), [&] {
    if (!best || !fs::is_directory(step_path(*best))) return;
    checkpoint::StagedFolder staging(folder_, kept_by_saves(""));
    staging.link(step_path(*best));
    staging.publish();
    found = true;
  });
  return !world_.communicator().broadcast_text(found ? "found" : "", 0).empty();
}

}  // namespace weft

// Checkpoints: when a training saves, and which of its folders stay.
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "base/text.hpp"
#include "files/formats.hpp"
#include "trainer/checkpoint_folders.hpp"
#include "weft/hooks.hpp"

namespace weft {

using nlohmann::json;

namespace {

void check_options(const CheckpointOptions& options) {
  const auto refuse = [](const char* what, const auto& value, const char* why) {
    fail(WEFT_INVALID_ARGUMENT, "Checkpoints: {} is {}, {}", what, value, why);
  };
  if (options.folder.empty()) refuse("folder", "empty", "must be the path of a folder");
  if (options.save_every < 0) refuse("save_every", options.save_every, "must not be negative");
  if (options.keep_last < 0) refuse("keep_last", options.keep_last, "must not be negative");
  const bool has_steps = options.save_every > 0 || !options.keep_best.empty();
  if (options.keep_last > 0 && !has_steps)
    refuse("keep_last", options.keep_last, "but no step-N/ is saved; give save_every or keep_best too");
  if (options.end_with_best && options.keep_best.empty())
    refuse("end_with_best", true, "but which step is the best is not known; give keep_best too");
  if (options.background && !has_steps)
    refuse("background", true, "but no step-N/ is saved; give save_every or keep_best too");
}

}  // namespace

Checkpoints::Checkpoints(CheckpointOptions options, const World& world, const std::string& format)
    : options_(std::move(options)) {
  check_options(options_);
  checkpoint::format_named(format);
  folders_ = std::make_unique<CheckpointFolders>(options_.folder,
                                                 options_.save_every > 0 || !options_.keep_best.empty(),
                                                 !options_.keep_best.empty(), world);
}

Checkpoints::~Checkpoints() = default;

bool Checkpoints::is_due(const Trainer& trainer) const {
  const int64_t step = trainer.step();
  return step >= trainer.total_steps() || (options_.save_every > 0 && step % options_.save_every == 0);
}

void Checkpoints::begin(Trainer& trainer) {
  if (!options_.keep_best.empty()) trainer.require_key(options_.keep_best);
  settle();
}

void Checkpoints::before_step(Trainer& trainer) {
  if (is_due(trainer) || (!options_.keep_best.empty() && trainer.is_evaluated())) trainer.check_step();
}

void Checkpoints::after_evaluation(Trainer& trainer) {
  if (options_.keep_best.empty()) return;
  const std::optional<double> value = trainer.evaluation()->at(options_.keep_best);
  if (!is_better(options_.keep_best, value, best_value_)) return;
  best_value_ = value;
  improved_ = true;
}

void Checkpoints::end_step(Trainer& trainer) {
  const bool improved = std::exchange(improved_, false);
  // The last step has the folder itself, and step-N/ where that stands for another one or `best` is a link.
  const bool wanted =
      improved || (trainer.is_last_step() ? options_.end_with_best : is_due(trainer) || trainer.wants_save());
  if (wanted) save_step(trainer, improved);
}

void Checkpoints::save_step(Trainer& trainer, bool is_best) {
  trainer.booster().finish_saving();
  settle();
  if (is_best) folders_->best = trainer.step();
  folders_->add(trainer.step());
  unsettled_ = true;
  trainer.save(folders_->of_step(trainer.step()), {.background = options_.background});
  if (!options_.background) settle();
}

// Does what waits for the last save to be complete.
void Checkpoints::settle() {
  unsettled_ = false;
  folders_->link_best();
  folders_->prune(options_.keep_last);
}

void Checkpoints::end(Trainer& trainer) {
  trainer.booster().finish_saving();
  if (unsettled_) settle();
  const World& world = trainer.booster().world();
  if (options_.end_with_best && folders_->best && folders_->end_with_best()) {
    world.print_on_master(fmt::format("saved {}: the best step, {} with {} {:.6g}", options_.folder,
                                      *folders_->best, options_.keep_best, best_value_.value()));
    return;
  }
  trainer.save(options_.folder);
  world.print_on_master(fmt::format("saved {}", options_.folder));
}

// Without either option nothing is removed, and jobs that train alike save alike.
std::string Checkpoints::state() const {
  if (options_.keep_last == 0 && options_.keep_best.empty()) return {};
  json state = {{"run", folders_->run}, {"steps", folders_->steps}};
  if (folders_->best)
    state["best"] = {{"key", options_.keep_best}, {"step", *folders_->best}, {"value", *best_value_}};
  return state.dump();
}

void Checkpoints::restore(const std::string& text) {
  const json state = parse_json(text, "the saved state of checkpoints");
  folders_->run = state.at("run").get<std::string>();
  folders_->steps = state.at("steps").get<std::vector<int64_t>>();
  const json best = state.value("best", json::object());
  if (best.value("key", "") != options_.keep_best || options_.keep_best.empty()) return;  // begins anew
  folders_->best = best.at("step").get<int64_t>();
  best_value_ = best.at("value").get<double>();
}

}  // namespace weft

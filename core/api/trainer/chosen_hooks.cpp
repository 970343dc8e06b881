#include "trainer/chosen_hooks.hpp"

#include <charconv>
#include <filesystem>

#include "base/text.hpp"
#include "step_log/files.hpp"

namespace weft {

namespace fs = std::filesystem;

void set_length(const Settings& settings, TrainerOptions& options) {
  options.steps = settings.integer("steps", 0);
  if (!settings.given("steps")) options.epochs = settings.integer("epochs", 1);
}

void set_evaluation_times(const Settings& settings, TrainerOptions& options) {
  const std::string text = settings.text("evaluate_every");
  if (text.empty()) return;
  if (text == "epoch") {
    options.evaluate_every_epoch = true;
    return;
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, options.evaluate_every);
  if (error != std::errc() || stop != end || options.evaluate_every < 1)
    fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be a number of steps above 0, or epoch",
         settings.called("evaluate_every"), printable(text));
}

std::shared_ptr<Checkpoints> make_checkpoints(const Settings& settings, const std::string& format,
                                              const World& world) {
  if (!settings.given("output")) return nullptr;
  CheckpointOptions options;
  options.folder = settings.text("output");
  options.save_every = settings.integer("save_every", 0);
  options.background = settings.flag("save_async");
  options.keep_last = settings.integer("keep_last", 0);
  options.keep_best = settings.text("keep_best");
  options.end_with_best = settings.flag("end_with_best");
  return std::make_shared<Checkpoints>(options, world, format);
}

std::shared_ptr<NonFiniteGuard> make_guard(const Settings& settings) {
  if (!settings.given("on_nonfinite")) return nullptr;
  fs::path folder = fs::path(settings.text("output")).lexically_normal();
  if (!folder.empty() && !folder.has_filename()) folder = folder.parent_path();
  const bool stops = settings.text("on_nonfinite") == "stop";
  return std::make_shared<NonFiniteGuard>(stops ? NonFiniteGuard::Then::kStop : NonFiniteGuard::Then::kSkip,
                                          folder.empty() ? "" : folder.string() + ".nonfinite");
}

std::shared_ptr<StepRecords> make_records(const Settings& settings, const World& world) {
  return std::make_shared<StepRecords>(StepLog(std::make_shared<StepLog::Files>(
      StepLogOptions{settings.text("metrics"), settings.text("tensorboard")}, world,
      [&](const std::string& name) { return settings.called(name == "jsonl" ? "metrics" : name); })));
}

std::shared_ptr<EarlyStopping> make_early_stopping(const Settings& settings) {
  if (!settings.given("patience")) return nullptr;
  return std::make_shared<EarlyStopping>(settings.text("keep_best", "loss"), settings.integer("patience"));
}

}  // namespace weft

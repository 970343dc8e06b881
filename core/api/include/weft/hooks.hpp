// Hooks of a Trainer: checkpoints, early stopping, progress and records.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/generation.hpp"
#include "weft/step_log.hpp"
#include "weft/trainer.hpp"
#include "weft/world.hpp"

namespace weft {

class CheckpointFolders;

// Where and when Checkpoints saves, and what it keeps.
struct CheckpointOptions {
  // The folder that gets the model and training_state/ at the end. It appears, or is replaced, at once.
  std::string folder;
  // Steps between two saves to step-N/ inside it; 0: none.
  int64_t save_every = 0;
  // Writes step-N/ in a thread while the training goes on; needs memory for a copy.
  bool background = false;
  // How many step-N/ of this training are kept, the newest ones; 0: all. What another training or a person
  // put into the folder stays, and so does the best.
  int64_t keep_last = 0;
  // A key of the evaluation: the step with its best value is saved at once, and `best` in the folder is a
  // link to its step-N/. Of equal values the first one is the best. Empty: no best step.
  std::string keep_best;
  // The folder gets the best step at the end, and the last one goes to step-N/.
  bool end_with_best = false;
};

// Saves a training to step-N/ and at the end. At any moment the last and the best of its checkpoints that
// were complete are there: nothing is removed before what follows it is complete.
class Checkpoints final : public Hook {
 public:
  // Tries to save, on the master, and keeps other jobs from saving to the same place while this object lives.
  // `format` is the checkpoint format of the booster. Throws on every rank if nothing can be saved there, and
  // INVALID_ARGUMENT for options that need others. Collective.
  Checkpoints(CheckpointOptions options, const World& world, const std::string& format = "");
  ~Checkpoints() override;

  std::string name() const override { return "checkpoints"; }
  bool saves() const override { return true; }
  // Returns whether this step is saved whatever an evaluation finds.
  bool is_due(const Trainer& trainer) const;

  void begin(Trainer& trainer) override;
  void before_step(Trainer& trainer) override;
  void after_evaluation(Trainer& trainer) override;
  void end_step(Trainer& trainer) override;
  void end(Trainer& trainer) override;
  std::string state() const override;
  void restore(const std::string& state) override;

 private:
  void save_step(Trainer& trainer, bool is_best);
  void settle();

  CheckpointOptions options_;
  std::unique_ptr<CheckpointFolders> folders_;
  std::optional<double> best_value_;
  bool improved_ = false, unsettled_ = false;
};

// Stops a training when a value of its evaluation has not become better for a number of evaluations.
class EarlyStopping final : public Hook {
 public:
  // `key` is one of the evaluation. Throws INVALID_ARGUMENT unless `patience` is more than 0.
  EarlyStopping(std::string key, int64_t patience);
  std::string name() const override { return "early_stopping"; }
  void begin(Trainer& trainer) override;
  void after_evaluation(Trainer& trainer) override;
  std::string state() const override;
  void restore(const std::string& state) override;

 private:
  std::string key_;
  int64_t patience_, waited_ = 0;
  std::optional<double> best_;
};

// Keeps an update whose loss or gradients are not finite (nan or inf) from the parameters, and says where
// they began: the unit, the tensor, the rank and its samples.
class NonFiniteGuard final : public Hook {
 public:
  enum class Then { kStop, kSkip };
  // `folder` gets this rank's batch of such a step, step-N-rank-R.safetensors, with the fields of the batch;
  // empty: it is not kept. It is made when it is needed.
  NonFiniteGuard(Then then, std::string folder) : then_(then), folder_(std::move(folder)) {}
  // What ended the training, the same on every rank; empty if nothing did.
  const std::string& stopped() const { return stopped_; }

  std::string name() const override { return "nonfinite_guard"; }
  void begin(Trainer& trainer) override;
  void after_step(Trainer& trainer) override;

 private:
  Then then_;
  std::string folder_, stopped_;
};

// Prints the progress of a training to stderr, on the master: a bar on a terminal, otherwise a line every few
// seconds; and a line for each evaluation, and for each epoch if there are several.
class Progress final : public Hook {
 public:
  ~Progress() override;
  std::string name() const override { return "progress"; }
  void begin(Trainer& trainer) override;
  void before_epoch(Trainer& trainer) override;
  void after_step(Trainer& trainer) override;
  void after_epoch(Trainer& trainer) override;
  void after_evaluation(Trainer& trainer) override;
  void end(Trainer& trainer) override;

 private:
  void print(const std::string& line, bool stays);

  using Clock = std::chrono::steady_clock;
  int64_t first_ = 0;
  bool speaks_ = false, terminal_ = false, open_line_ = false;
  Clock::time_point start_, last_, epoch_start_;
  double epoch_loss_ = 0;
  int64_t epoch_steps_ = 0;
};

// Writes what each step and each evaluation measures to a StepLog: loss, epoch, lr, step_seconds,
// tokens_per_second, peak_memory_bytes, and the times and bytes of a step; what an evaluation finds as
// "evaluation/KEY" of its step. A resumed training goes on after its step.
class StepRecords final : public Hook {
 public:
  explicit StepRecords(StepLog log);
  ~StepRecords() override;

  // Returns the files that could not be written to their end, as StepLog::incomplete() does.
  std::vector<std::string> incomplete() const;

  std::string name() const override { return "step_records"; }
  void begin(Trainer& trainer) override;
  void after_step(Trainer& trainer) override;
  void after_evaluation(Trainer& trainer) override;
  void end_step(Trainer& trainer) override;

 private:
  struct Measures;
  std::unique_ptr<Measures> measures_;
};

// Prints what a language model continues prompts with, every few steps and at the end. Changes nothing that
// is trained.
class TextSamples final : public Hook {
 public:
  // `every` counts steps. The text is tokenized as the model's folder says; without a tokenizer the tokens
  // are bytes, of a model with 256 of them. begin() throws what generate() refuses.
  TextSamples(std::vector<std::string> prompts, int64_t every, GenerationOptions options);
  std::string name() const override { return "text_samples"; }
  void begin(Trainer& trainer) override;
  void end_step(Trainer& trainer) override;

 private:
  std::vector<std::string> prompts_;
  int64_t every_;
  GenerationOptions options_;
  std::vector<std::vector<int64_t>> ids_;
};

// Makes a hook of an installed library of plugin kind "hook" (weft/hook.h). `name` may have a version behind
// an at sign; `options` are those of the plugin, the text of a JSON object. The other ranks must make the
// same one. Its functions throw what the library fails with, and INVALID_ARGUMENT for a request that has no
// effect at its moment. Throws the error of the loader, INVALID_ARGUMENT for options that the plugin does not
// have or refuses, and FAILED_PRECONDITION for a hook that breaks the rules.
std::shared_ptr<Hook> library_hook(const std::string& name, const std::string& options = "{}");

// Returns the values of an evaluation for people: "loss 2.3456  perplexity 10.440".
std::string evaluation_text(const EvaluationValues& values);

}  // namespace weft

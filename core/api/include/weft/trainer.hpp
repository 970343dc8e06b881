// Trainer: the loop of a training, with evaluation, which hooks extend.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/booster.hpp"
#include "weft/data/dataset.hpp"
#include "weft/generation.hpp"
#include "weft/job.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

class Trainer;

// What an evaluation found, by key: "loss", "perplexity", "accuracy" and others that the model's class has.
// Nothing stands for a value that is undefined, such as the accuracy over no label.
using EvaluationValues = std::map<std::string, std::optional<double>>;

// Returns the values of an evaluation. The perplexity is that of the model's own loss; a loss of another
// origin, such as a criterion, has none.
EvaluationValues evaluation_values(const Evaluation& evaluation, const Job& job);

// Returns whether a value under this key is better than another one: lower is better for loss, perplexity,
// bits_per_byte, mse and word_error_rate, higher for all others. The last part of a key decides:
// "books/loss". A value that is undefined or not finite is never better; any other is better than none.
bool is_better(const std::string& key, const std::optional<double>& value, const std::optional<double>& than);

// A part of a training. The Trainer calls its functions on every rank, in the order of the hooks, at these
// moments:
//
//   begin                                     once, after what was saved is restored
//     before_epoch                            of each epoch, also of one that goes on in the middle
//       before_step                           of each step, whose batch is loaded
//         before_micro_batch                  the first unit that this rank runs begins its forward
//         after_micro_batch                   the last part of its backward on this rank has ended
//         before_update                       the gradients are complete
//         after_update                        the parameters have changed
//       after_step                            what the step did is known
//     after_epoch                             if the step was the last one of its epoch
//       before_evaluation, after_evaluation   if one is due or asked for
//         before_save, after_save             around each save
//       end_step                              of each step; checkpoints are written here
//   end                                       after the last step
//
// after_update is left out after a step that updates nothing. A hook may ask the Trainer for more: an
// evaluation, a save, to skip this step or its update, to stop. Each rank must ask for the same, unless
// asks_alone() says otherwise. What a function throws ends the training; it must throw on every rank, or the
// others wait for this one until their timeout.
class Hook {
 public:
  virtual ~Hook() = default;
  // The name under which its state is saved. Two hooks of a training have different names.
  virtual std::string name() const = 0;

  virtual void begin(Trainer&) {}
  virtual void before_epoch(Trainer&) {}
  virtual void before_step(Trainer&) {}
  virtual void before_micro_batch(Trainer&, uint32_t /*micro_batch*/) {}
  virtual void after_micro_batch(Trainer&, uint32_t /*micro_batch*/) {}
  virtual void before_update(Trainer&) {}
  virtual void after_update(Trainer&) {}
  virtual void after_step(Trainer&) {}
  virtual void after_epoch(Trainer&) {}
  virtual void before_evaluation(Trainer&) {}
  virtual void after_evaluation(Trainer&) {}
  virtual void before_save(Trainer&, const std::string& /*folder*/) {}
  virtual void after_save(Trainer&, const std::string& /*folder*/) {}
  virtual void end_step(Trainer&) {}
  virtual void end(Trainer&) {}

  // What save_training writes to training_state/ for this hook, as text; empty: nothing. restore() gets it
  // before begin() if the job was loaded from there. Throws INVALID_ARGUMENT for a text of something else.
  virtual std::string state() const { return {}; }
  virtual void restore(const std::string& /*state*/) {}

  // Returns true, on every rank, if some ranks alone may ask to stop, for an evaluation or for a save. The
  // Trainer then combines such requests when a step has ended and after an evaluation, with an all-reduce of
  // a few bytes, and every rank acts on them.
  virtual bool asks_alone() const { return false; }
  // Returns what this hook, which asks alone, keeps in place of throwing it on this rank alone; null:
  // nothing. When the Trainer combines requests, all ranks throw it.
  virtual std::exception_ptr failure() const { return nullptr; }
  // Returns whether the hook saves where something asks the Trainer for a save.
  virtual bool saves() const { return false; }
};

// What an evaluation of a set measures beside the losses and metrics of the model's class. Its functions are
// collective. What one throws, it throws on every rank.
class SetMeasures {
 public:
  virtual ~SetMeasures() = default;
  // Throws what makes the measures impossible with this job. A Trainer calls it before the first step.
  virtual void check(Job& /*job*/) {}
  // Begins an evaluation of the set.
  virtual void begin() = 0;
  // Measures the next batch, of which this rank has `batch` and the outputs that Job::forward_and_evaluate
  // returned.
  virtual void add(Job& job, const Batch& batch, const State& outputs) = 0;
  // Sets values of the batches since begin(): with the same bits on every rank, or on rank 0 alone, whose
  // values a Trainer gives to all ranks.
  virtual void end(EvaluationValues& values) = 0;
};

// Returns the measures of answers to questions, "exact_match" and "f1" of their texts as SQuAD defines them
// (Rajpurkar et al., arXiv:1606.05250), in place of those of token ids. An answer has at most `most_tokens`
// tokens. Throws INVALID_ARGUMENT unless data::open_questions() opened the data of `set`.
std::shared_ptr<SetMeasures> measure_answers(const data::Loader& set, int64_t most_tokens = 30);

// Returns the measure "word_error_rate" of a set whose samples have the inputs of an encoder and labels of
// tokens: the share of the words of the labels' texts that the texts which a decoder generates get wrong. It
// takes two tokens for each label at most. check() throws INVALID_ARGUMENT for a model without an encoder or
// a decoder, and what generate() throws.
std::shared_ptr<SetMeasures> measure_word_errors(const data::Loader& set, const Tokenizer& tokenizer,
                                                 const GenerationOptions& options);

// Data on which a training is evaluated. Its loader has the data rank of the job, and neither shuffles nor
// drops a batch.
struct EvaluationSet {
  std::string name;
  data::Loader data;
  std::vector<std::shared_ptr<SetMeasures>> measures = {};  // of this data, in order
};

// What a Trainer is told beside its job.
struct TrainerOptions {
  // When the training ends: after this many steps, those before a resume included, or after so many epochs.
  // Exactly one of them is more than 0.
  int64_t steps = 0;
  int64_t epochs = 0;
  // The training is evaluated after each N-th step, or after each epoch, and after the last step. Of several
  // sets the values have the keys NAME/KEY, and those of the first one also KEY.
  int64_t evaluate_every = 0;  // steps; 0: not by steps
  bool evaluate_every_epoch = false;
  std::vector<EvaluationSet> evaluation = {};
  std::vector<std::shared_ptr<Hook>> hooks = {};
};

// Returns the number of steps of a training, for its schedule. Throws INVALID_ARGUMENT unless exactly one of
// `steps` and `epochs` is more than 0, and for more epochs than there can be.
int64_t total_steps(const TrainerOptions& options, const data::Loader& data);

// Runs the training of a job. Evaluation changes nothing that is trained: with and without it a training has
// the same bits.
//
//   Trainer trainer(booster, job, {.epochs = 3, .evaluate_every_epoch = true, .evaluation = {{"", held_out}},
//                                  .hooks = {std::make_shared<Checkpoints>(...)}});
//   trainer.fit();
class Trainer {
 public:
  // Throws INVALID_ARGUMENT for options that contradict each other, FAILED_PRECONDITION for a job without
  // optimizer or data.
  Trainer(Booster booster, Job job, TrainerOptions options);

  // Trains from the step of the job to the last one, or until something asks to stop. Throws ABORTED if the
  // training has diverged: a loss or the norm of the gradients is not finite, or more than 200 steps in a row
  // update nothing. Collective.
  void fit();

  const Booster& booster() const { return booster_; }
  Booster& booster() { return booster_; }
  Job& job() { return job_; }
  // The number of the step that runs, or has run last, from 1; 0 before the first one.
  int64_t step() const { return step_; }
  int64_t total_steps() const { return total_steps_; }
  // The epoch of that step, from 0, and whether the step is its last one.
  int64_t epoch() const { return epoch_; }
  bool ends_epoch() const { return ends_epoch_; }
  // Whether nothing follows the step: it is the last one, or the training stops after it.
  bool is_last_step() const { return step_ >= total_steps_ || stopping_; }
  // This rank's part of the batch of the step that runs, or has run last.
  const Batch& batch() const { return batch_; }
  // What that step did, from after_step on.
  const StepResult& result() const { return result_; }
  // What the newest evaluation found, and after which step; nothing before the first one.
  const std::optional<EvaluationValues>& evaluation() const { return evaluation_; }
  int64_t evaluated_step() const { return evaluated_step_; }
  // Whether the training is evaluated after this step: its time has come, or the step is the last one.
  bool is_evaluated() const;
  // Whether something asked to stop.
  bool stopping() const { return stopping_; }

  // Ends the training after this step. For one rank alone, another thread or a signal handler there is
  // Job::request_stop.
  void stop() { stopping_ = true; }
  // Lets another step follow one that ended with StepResult::stop. Call it in after_step.
  void postpone_stop() { stopping_ = false; }
  // In before_step: leaves out the step; its batch counts as read. In before_update: forgets the gradients,
  // and neither parameters nor schedule nor the number of steps move.
  void skip() { skips_ = true; }
  // Asks for an evaluation after this step; up to after_epoch.
  void ask_for_evaluation() { wants_evaluation_ = true; }
  // Asks hooks that save, such as Checkpoints, to save after this step; up to after_evaluation.
  void ask_for_save() { wants_save_ = true; }
  bool wants_save() const { return wants_save_; }
  // Whether one of the hooks saves then.
  bool saves() const;
  // In before_step: compares gradients and parameters of this step between the ranks (Job::check_next_step).
  void check_step() { job_.check_next_step(); }

  // Returns the keys of the values that evaluations have. The first call evaluates a batch of each set,
  // without the hooks. Collective.
  std::vector<std::string> evaluation_keys();
  // Throws INVALID_ARGUMENT on every rank unless evaluations have a value under `key`. A hook that needs one
  // calls it in begin(). Collective, like evaluation_keys().
  void require_key(const std::string& key);
  // Evaluates now and calls the hooks. Returns false if a request to stop came meanwhile, on every rank:
  // nothing was found then, and after_evaluation is not called. Collective.
  bool evaluate();
  // Saves the job with the state of the hooks now. With SaveOptions::background it returns, and calls
  // after_save, before the files are written. Collective.
  void save(const std::string& folder, const SaveOptions& options = {});

 private:
  template <class Moment, class... Arguments>
  void call(const Moment& moment, const Arguments&... arguments) {
    for (const std::shared_ptr<Hook>& hook : options_.hooks) ((*hook).*moment)(*this, arguments...);
  }
  void restore_hooks();
  bool run_step();
  void load_batch();
  void check_result();
  bool stop_is_requested() const;
  void combine_requests();
  std::optional<EvaluationValues> values_of_set(EvaluationSet& set, bool whole);
  std::optional<EvaluationValues> values_of_sets(bool whole);
  std::optional<EvaluationValues> values_of_weights_and_average(bool whole);

  Booster booster_;
  Job job_;
  TrainerOptions options_;
  Batch batch_;
  StepResult result_;
  std::optional<EvaluationValues> evaluation_, first_values_;
  int64_t step_ = 0, total_steps_ = 0, epoch_ = 0, evaluated_step_ = -1, skipped_ = 0;
  bool ends_epoch_ = false, stopping_ = false, skips_ = false, wants_evaluation_ = false, wants_save_ = false;
};

}  // namespace weft

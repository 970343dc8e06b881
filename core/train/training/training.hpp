// A training: runs the steps of one model under one strategy on this rank. A step calls hooks, and hooks and
// steps read the bindings; neither the bindings nor the hooks know what is above them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/random.hpp"
#include "device/reading.hpp"
#include "training/bindings.hpp"
#include "training/hooks.hpp"
#include "training/step_check.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft {

class Pipeline;
class StageChain;
class StepGraphs;

class Training {
 public:
  // Makes the bindings and starts the strategy. Collective: every rank passes the same arguments.
  Training(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
           std::string strategy_name, const std::vector<weft_kv>& strategy_options, TrainingOptions options,
           std::shared_ptr<ParameterSource> source, const Bindings::MakePlan& make_plan = {});
  ~Training();

  Bindings& bindings() { return bindings_; }
  const Bindings& bindings() const { return bindings_; }

  // This rank's part of the loss of a step. Each term is already divided by its count in the global batch, so
  // the sum over all ranks is the loss of the global batch.
  struct StepLoss {
    std::vector<std::string> names;
    std::deque<double> parts;  // one for each term, weighted; complete when `reading` has been read
    size_t model_terms = 0;    // the first terms are the model's, the others auxiliary losses
    device::Reading reading;   // has begun: it waits for the forwards alone
    double total() const;
    double auxiliary() const;
  };
  // A loss of the caller's own instead of the model's: a mean over samples. The host averages it over
  // micro-batches, each weighted by its samples, and then over data-parallel ranks.
  using Criterion = std::function<at::Tensor(const State& outputs, const Batch& batch)>;
  // No label of the global batch counts, so that there is no loss. Every rank throws it, before it computes.
  struct NoLabelError : Error {
    using Error::Error;
  };
  // What is called for each micro-batch of a step: before the first unit that this rank runs, and after the
  // last part of its backward on this rank. Each may be empty.
  struct MicroBatchHooks {
    std::function<void(uint32_t micro)> before, after;
  };
  // Runs forward and backward over micro-batches, in the order of the strategy's schedule or, with pipeline
  // stages, of the host's. Gradients add up until zero_gradients(). `outputs`, if not null, gets the outputs
  // as Forward has them.
  StepLoss run_step(const std::vector<Batch>& micro_batches, const Criterion& criterion = {},
                    State* outputs = nullptr, const MicroBatchHooks& hooks = {});
  // The result of a forward: the outputs without graph and, if the batch has labels, the terms of the loss
  // with their counts over this rank's samples. Of several stages, the one that ran the last unit has the
  // outputs and the model's terms, and each has the auxiliary losses of its own units.
  struct Forward {
    State outputs;
    std::vector<nn::LossTerm> terms;
    std::vector<nn::LossCount> counts;
  };
  // Runs forward over micro-batches without gradients, in the order of the schedule. Returns the results of
  // all of them: their outputs one after another, the sums of their terms and counts.
  Forward run_forward(const std::vector<Batch>& micro_batches);
  // Does the same, and returns the result of each micro-batch, also of stand-ins.
  std::vector<Forward> run_each_forward(const std::vector<Batch>& micro_batches);

  // Keeps the state of the random generators, for find_nonfinite. Call it before run_step.
  void keep_random_state() { random_before_step_ = device::random_state(); }
  bool keeps_random_state() const { return random_before_step_.defined(); }
  // Runs run_forward, and returns the first unit on this rank after which a tensor of floating point is not
  // finite, and the tensor's name; two empty texts if all are finite. With the random numbers of the step
  // before which keep_random_state() was called, if it was. Buffers and generators stay as they are.
  std::pair<std::string, std::string> find_nonfinite(const std::vector<Batch>& micro_batches);

  // Run forward and backward for a caller with a loop of its own. If layers add auxiliary losses, the outputs
  // have their weighted mean as "aux_loss", which the caller adds to the loss.
  State forward(const Batch& batch);
  // Runs forward of `positions` tokens of each sequence, which continue those in `cache`, without gradients,
  // and adds them to it. Returns the logits of the last position, (rows, 1, vocabulary): undefined if the
  // model has none and, of several stages, on all but the first. Collective.
  at::Tensor forward_cached(const Batch& batch, int64_t positions, nn::KeyValueCache& cache);
  void backward(const at::Tensor& loss);
  void set_synchronise(bool synchronise) { synchronise_ = synchronise; }
  bool synchronise() const { return synchronise_; }

  // Asks for a comparison in the next step, unless check_agreement leaves all of them out.
  void ask_for_check() { check_asked_ = true; }
  // Begins to compare what the strategy does in the next step with what it must do, if that is asked for or
  // due (BoosterOptions::check_agreement) and no gradient is pending. Before all steps but the first compares
  // the parameters, too. Call it before each step. Throws UnverifiedError on every rank if they differ, which
  // ends the training. Collective.
  void begin_check();
  bool is_checking() const { return check_.has_value(); }
  // Postpones a comparison that has begun to the next step, because this step computes nothing.
  void postpone_check() {
    --steps_begun_;
    check_asked_ = check_.has_value();
    check_.reset();
    bindings_.set_checks_update(false);
  }
  // Returns true the first time that it is called, which is for a batch without labels.
  bool is_first_without_labels() { return !std::exchange(had_batch_without_labels_, true); }
  // Ends the comparison, if there is one. Call it before the update. Throws UnverifiedError on every rank for
  // what StepCheck finds, which ends the training. Collective.
  void finish_check();

 private:
  friend struct ::weft_step;
  // Runs one unit with the context of its micro-batch. Returns the auxiliary losses that its layers add.
  std::vector<nn::AuxiliaryLoss> forward_unit(weft_unit& unit, State& state, const weft_pass& pass,
                                              const std::shared_ptr<nn::ForwardContext>& context,
                                              const std::shared_ptr<ForwardRecord>& record);
  std::shared_ptr<nn::ForwardContext> context_of(const Batch& batch,
                                                 nn::KeyValueCache* cache = nullptr) const;
  void add_micro_batches(weft_step& step, const std::vector<Batch>& batches);
  void drive(weft_step& step);
  void evaluate(weft_step& step, const std::vector<Batch>& micro_batches);
  void require_whole_model(const char* what) const;
  void check_driven(const weft_step& step);

  weft_training bindings_;
  Hooks hooks_;
  std::unique_ptr<StageChain> stage_chain_;  // of forward_cached, after its first call; null like pipeline_
  std::unique_ptr<StepGraphs> graphs_;       // null unless BoosterOptions::enable_cuda_graph
  std::unique_ptr<Pipeline> pipeline_;  // null if this rank runs all units, or the strategy schedules them
  bool synchronise_ = true;
  int64_t steps_begun_ = 0;
  int64_t zeroings_of_last_backward_ = -1;  // as many as bindings().zeroings(): gradients are pending
  bool check_asked_ = false;
  bool had_batch_without_labels_ = false;
  std::optional<StepCheck> check_;                                        // of the step that is running
  std::function<void(const weft_unit& unit, const State& state)> watch_;  // sees what each unit returns
  at::Tensor random_before_step_;                                         // undefined unless it was kept
};

// Returns the bindings of `training`, which lives as long as the pointer.
inline std::shared_ptr<Bindings> shared_bindings(const std::shared_ptr<Training>& training) {
  return {training, &training->bindings()};
}

}  // namespace weft

// A step while its micro-batches run: the object behind weft_step. Its functions run the parts of the step in
// whatever order a schedule has, that of the host, of a pipeline, or of a strategy.
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "training/forward_record.hpp"
#include "training/training.hpp"

namespace weft {

// Consecutive units that run forward on one weft_state, and then backward in one call. If a schedule has
// several stages on this rank, a micro-batch has several pieces. The last one that ran forward runs backward
// first, because its gradients are what the earlier ones wait for.
struct Piece {
  uint32_t next_unit = 0;
  std::shared_ptr<ForwardRecord> record;  // that of the weft_state
  at::Tensor auxiliary;  // the scaled auxiliary losses of its units; undefined if there are none
};

struct MicroBatch {
  Batch batch;
  std::optional<State> input;  // what the first unit reads, if it is kept from a check of the batch
  std::optional<std::vector<nn::LossCount>> counts;  // of its labels, once weft_step::counts was called
  double share = 0;  // its part of a mean over samples and data-parallel ranks, for a criterion
  std::shared_ptr<nn::ForwardContext> context;
  std::vector<Piece> pieces;  // whose backward is to come
  uint32_t halves = 0;        // of split backwards, how many second halves are to come
  uint32_t forwards = 0;      // how many units have run forward
  at::Tensor loss;            // the scaled loss, whose backward is to come
  bool finished = false;
  bool backward_begun = false;
  Training::Forward result;                  // made by finish; in training only the outputs that are kept
  std::vector<nn::AuxiliaryLoss> auxiliary;  // only in evaluation
};

// What a graph of a micro-batch has on the device in place of values of the host (step_graphs.hpp).
struct StepCapture {
  at::Tensor scales;                                 // weft_step::scales and the loss scale; of each replay
  std::vector<std::pair<size_t, at::Tensor>> parts;  // by term, in place of weft_step::reading
};

// Throws INVALID_ARGUMENT unless `loss` is one element in floating point. `who` returned it: "the criterion".
void check_loss(const std::string& who, const at::Tensor& loss);
// Throws too if autograd does not know how it was computed, so that backward cannot begin at it.
void check_root(const std::string& who, const at::Tensor& loss);

// Throws for the term `name` of the loss, of which no label counts in the global batch: NoLabelError if there
// is none of any term. `counts` has those of all terms.
[[noreturn]] void refuse_term(const nn::Model& model, const std::string& name,
                              const std::vector<double>& counts);

// Returns the results of all micro-batches as that of one forward: their outputs one after another, and the
// sums of their terms and counts. Leaves stand-ins out unless there is nothing else.
Training::Forward joined_results(const std::vector<MicroBatch>& micro);

}  // namespace weft

struct weft_step {
  weft::Training* owner = nullptr;
  bool training = true;
  bool synchronise_last = true;  // gradients are synchronised in the last backward
  bool keeps_outputs = false;    // in training; in evaluation they are always kept
  bool splits_backward = false;  // backward leaves the gradients of weights to finish_backward
  std::vector<weft::MicroBatch> micro;
  weft::Training::Criterion criterion;
  weft::Training::MicroBatchHooks hooks;

  std::vector<std::string> names;  // of the loss terms: first the model's, then auxiliary losses
  std::vector<double> scales;      // of the model's terms: 1 / (number of labels in the global batch)
  std::vector<double> positions;   // of each sequence in the global batch; empty with a criterion
  std::deque<double> parts;        // this rank's part of each term, complete when `reading` has been read
  weft::device::Reading reading;   // begins when the last micro-batch is finished
  weft::StepCapture* capture = nullptr;  // while a micro-batch is captured as a graph

  weft::Bindings& bindings() const { return owner->bindings(); }
  // The functions of weft_step_services (weft/training.h). They throw instead of returning a status.
  weft::State input(uint32_t index) const;
  // Returns what the loss counts in a micro-batch. Counts it once.
  const std::vector<weft::nn::LossCount>& counts(uint32_t index);
  void forward(uint32_t index, weft_unit& unit, weft_state& state);
  void finish(uint32_t index, const weft::State& last);
  // In place of forward, finish and backward of a micro-batch whose graph `launch` replays: calls the hooks
  // before_forward and after_forward of its units, and then the others (Hooks::run_graph).
  void before_graph(uint32_t index);
  void run_graph(uint32_t index, const std::function<void()>& launch, const weft::Strategy::KeptHooks& after);
  // Without `outputs`, backward begins at the loss. `gradients` has every differentiable field of `outputs`;
  // an undefined one counts as zero. `send` runs when the gradients of the fields that entered the piece are
  // complete, before the strategy's end_backward. Returns what finish_backward takes; null unless backward is
  // split.
  std::shared_ptr<weft::ForwardRecord> backward(uint32_t index, const weft::State* outputs = nullptr,
                                                const weft::State* gradients = nullptr,
                                                const std::function<void()>& send = {});
  // Runs the second half of a split backward. Call it once for each.
  void finish_backward(uint32_t index, const weft::ForwardRecord& record);
  // Adds `value`, which has one element, to the part of a term, if this rank counts it: one rank does, so
  // that the sum over ranks counts it once.
  void add_part(size_t term, const at::Tensor& value);
  // Returns what backward begins at in place of `loss`.
  at::Tensor with_loss_scale(const at::Tensor& loss) const;

 private:
  // Call the hooks of a micro-batch, if it is where they belong. Nothing while a graph is captured: what the
  // caller does there is not part of it.
  void begin_micro_batch(uint32_t index);
  void end_micro_batch(uint32_t index);
  weft_pass forward_pass(uint32_t index) const;
  weft_pass backward_pass(uint32_t index) const;
  at::Tensor scaled_loss(uint32_t index, const weft::State& last, const weft::State& outputs);
};

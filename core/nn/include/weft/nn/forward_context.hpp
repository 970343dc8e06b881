// The context of one micro-batch's forward pass: its sequences, its random numbers and the auxiliary losses
// that layers add. Generation adds the cache of earlier tokens. Code that runs a unit (in forward, to
// recompute it, or on another pipeline stage) makes the context of that micro-batch the current one of its
// thread. Layers read the context instead of passing values to each other through members, so that
// micro-batches can interleave.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/cut.hpp"
#include "weft/state.hpp"

namespace weft {
class DeferredGradients;
}

namespace weft::nn {

class GraphSeeds;
class KeyValueCache;

// A sequence of this micro-batch, under the name that Model::lengths gives it.
struct Sequence {
  std::string name;
  int64_t positions = 0;  // T
  int64_t rows = 0;       // number of sequences of that length in the micro-batch
  std::vector<Run> own;   // which of 0 ... T - 1 this rank has in the residual stream
};

// A loss that a layer adds to the model's loss, such as the load balancing loss of a mixture of experts.
// `sum` is the sum over the rows and positions of `sequence` that this rank has. The host divides it by the
// number of positions of that sequence in the global batch and multiplies it by `weight`.
struct AuxiliaryLoss {
  std::string name;  // several layers may use the same name
  double weight = 1;
  at::Tensor sum;  // a scalar
  std::string sequence;
};

// What owners keep until a forward, or the run of a unit, ends.
class Kept {
 public:
  // Returns the object of `owner`. The first call makes it. An owner must always ask for the same type.
  template <class T>
  T& of(const void* owner) {
    std::shared_ptr<void>& place = place_of(owner);
    if (place == nullptr) place = std::make_shared<T>();
    return *static_cast<T*>(place.get());
  }

 private:
  std::shared_ptr<void>& place_of(const void* owner);

  std::vector<std::pair<const void*, std::shared_ptr<void>>> kept_;
};

// The context of one micro-batch.
class ForwardContext {
 public:
  // `seed` seeds the random numbers of this micro-batch. Without it they come from the default generator.
  // `cache` holds the earlier tokens of its sequences, and must outlive the context.
  explicit ForwardContext(std::vector<Sequence> sequences = {}, std::optional<uint64_t> seed = {},
                          KeyValueCache* cache = nullptr)
      : sequences_(std::move(sequences)), seed_(seed), cache_(cache) {}
  ForwardContext(const ForwardContext&) = delete;

  // Returns the context of the unit that this thread runs. Throws FAILED_PRECONDITION outside of a unit.
  static ForwardContext& current();

  const std::vector<Sequence>& sequences() const { return sequences_; }
  // Returns the sequence `name`. Throws NOT_FOUND naming the sequences that exist.
  const Sequence& sequence(std::string_view name) const;
  const std::optional<uint64_t>& seed() const { return seed_; }
  // Returns the cache of a forward whose tokens continue earlier ones, otherwise null. Layers call
  // KeyValueCache::current().
  KeyValueCache* cache() const { return cache_; }
  // Returns the batch if this forward is for its loss alone, so that nobody reads other outputs, and
  // otherwise null. A head may leave out what the loss does not need, such as logits whose label does not
  // count.
  const Batch* batch_of_loss() const { return loss_ ? &*loss_ : nullptr; }
  void want_loss_alone(Batch batch) { loss_ = std::move(batch); }
  // Returns the gradient that backward will pass to the term `name` of the loss, if that is known.
  std::optional<double> gradient_of_loss(std::string_view name) const;
  void know_gradient_of_loss(std::string name, double gradient) {
    gradients_of_loss_.emplace_back(std::move(name), gradient);
  }
  // The label smoothing of cross entropies in this forward; 0: none. Remembers that a loss asked for it.
  double label_smoothing() {
    asked_for_smoothing_ = true;
    return label_smoothing_;
  }
  void smooth_labels(double smoothing) { label_smoothing_ = smoothing; }
  // Whether labels are to be smoothed, but no loss asked for it.
  bool ignores_smoothing() const { return label_smoothing_ > 0 && !asked_for_smoothing_; }
  // Where the seeds of dropout masks are while this forward is captured as a CUDA graph, otherwise null. It
  // must outlive the context. Layers call drawn_mask_seed().
  GraphSeeds* graph_seeds() const { return graph_seeds_; }
  void capture_seeds(GraphSeeds* seeds) { graph_seeds_ = seeds; }
  // What units keep for each other, and for the loss and the outputs.
  Kept& kept() { return kept_; }

  // Adds an auxiliary loss. A call during recomputation is ignored, so that the loss counts once. Throws
  // NOT_FOUND if the sequence does not exist, INVALID_ARGUMENT unless the sum has one element.
  void add_loss(AuxiliaryLoss loss);
  // Returns the losses that were added and clears them.
  std::vector<AuxiliaryLoss> take_losses() { return std::exchange(losses_, {}); }

 private:
  const std::vector<Sequence> sequences_;
  const std::optional<uint64_t> seed_;
  KeyValueCache* const cache_;  // may be null
  GraphSeeds* graph_seeds_ = nullptr;
  std::optional<Batch> loss_;
  double label_smoothing_ = 0;
  bool asked_for_smoothing_ = false;
  std::vector<std::pair<std::string, double>> gradients_of_loss_;
  Kept kept_;
  std::vector<AuxiliaryLoss> losses_;
};

// Marks that this thread runs a unit of a micro-batch, from construction to destruction. Objects nest.
class RunningUnit {
 public:
  enum class Run { kFirst, kAgain };
  // The `count`th random number of the unit with this index, from 1.
  struct Draw {
    uint64_t unit = 0, count = 0;
    // Returns the number in a micro-batch that has this seed.
    uint64_t value(uint64_t seed) const;
  };
  // `index` is the unit's index in its model, from which its random numbers are derived, the same in every
  // run. For the loss and the outputs it is the number of units. If backward is split, `deferred` takes what
  // layers leave to its second half.
  RunningUnit(ForwardContext& context, uint64_t index, Run run = Run::kFirst,
              std::shared_ptr<DeferredGradients> deferred = nullptr);
  ~RunningUnit();
  RunningUnit(const RunningUnit&) = delete;

  // Returns the innermost object of this thread, null if there is none.
  static RunningUnit* find();
  // Returns the innermost object of this thread. Throws FAILED_PRECONDITION if there is none.
  static RunningUnit& current();

  ForwardContext& context() const { return context_; }
  bool runs_again() const { return run_ == Run::kAgain; }
  const std::shared_ptr<DeferredGradients>& deferred() const { return deferred_; }
  Draw draw() { return {index_, ++draws_}; }

  // What layers keep until the unit ends, for example what those that read the same input share.
  Kept& kept() { return kept_; }

 private:
  ForwardContext& context_;
  const uint64_t index_;
  const Run run_;
  const std::shared_ptr<DeferredGradients> deferred_;  // may be null
  RunningUnit* const outer_;
  uint64_t draws_ = 0;
  Kept kept_;
};

// Returns a seed for what a layer draws: the next random number of the running unit if its micro-batch has a
// seed, so that a unit that runs again draws the same, otherwise a number of the host's default generator.
// Streams are seeds that differ although these numbers are the same, for ranks that draw different values.
uint64_t drawn_seed(uint64_t stream = 0);

// The seed of a dropout mask: a number, or while a CUDA graph is captured a tensor, which is filled with
// another seed before each replay.
struct MaskSeed {
  int64_t number = 0;                // a uint64 in the bits of an int64
  std::optional<at::Tensor> tensor;  // one int64 on the device
};
// Returns drawn_seed() in this form.
MaskSeed drawn_mask_seed(uint64_t stream = 0);

// Returns a generator with that seed. It draws into host memory, the same numbers on every device. Include
// ATen/core/Generator.h to use it.
at::Generator drawn_generator(uint64_t stream = 0);
// Returns values that the host made on the device of `like`. The host does not wait for the device, as
// at::Tensor::to() would.
at::Tensor on_device_of(const at::Tensor& like, const at::Tensor& values);

}  // namespace weft::nn

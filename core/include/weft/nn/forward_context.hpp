// What belongs to the forward of one micro-batch beside the tensors of its State: facts about its sequences,
// its random numbers, and the auxiliary losses that layers add. Whoever runs a unit (the first time, to
// recompute it, or on another stage) makes the context of that micro-batch the current one of the thread;
// layers read it, and no layer writes into a member what another one reads.
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

namespace weft::nn {

// A sequence of this micro-batch, under the name that Model::lengths gives it.
struct Sequence {
  std::string name;
  int64_t positions = 0;  // T
  int64_t rows = 0;       // sequences of that length in the micro-batch
  std::vector<Run> own;   // of 0 ... T - 1, the positions that this rank has between the parallel regions
};

// A loss that a layer adds to the model's, such as the balance of the experts of a mixture. `sum` is over the
// rows and positions of `sequence` that this rank has; the host divides it by the number of positions of that
// sequence in the global batch, as it divides the model's terms by their labels, and multiplies it by
// `weight`.
struct AuxiliaryLoss {
  std::string name;  // several layers may add to one name
  double weight = 1;
  at::Tensor sum;  // a scalar
  std::string sequence;
};

// The context of one micro-batch.
class ForwardContext {
 public:
  // `seed`: of the random numbers of this micro-batch; without it they come from the default generator.
  explicit ForwardContext(std::vector<Sequence> sequences = {}, std::optional<uint64_t> seed = {})
      : sequences_(std::move(sequences)), seed_(seed) {}
  ForwardContext(const ForwardContext&) = delete;

  // Returns the context of the unit that this thread runs. Throws FAILED_PRECONDITION where none runs.
  static ForwardContext& current();

  const std::vector<Sequence>& sequences() const { return sequences_; }
  // Throws NOT_FOUND naming the sequences that there are.
  const Sequence& sequence(std::string_view name) const;
  const std::optional<uint64_t>& seed() const { return seed_; }

  // Adds a loss to the model's. A layer that is recomputed calls this again; the loss counts once. Throws
  // NOT_FOUND if there is no such sequence, INVALID_ARGUMENT unless the sum has one element.
  void add_loss(AuxiliaryLoss loss);
  // Returns and clears what was added.
  std::vector<AuxiliaryLoss> take_losses() { return std::exchange(losses_, {}); }

 private:
  const std::vector<Sequence> sequences_;
  const std::optional<uint64_t> seed_;
  std::vector<AuxiliaryLoss> losses_;
};

// While it lives, this thread runs a unit of the micro-batch of `context`; afterwards whatever it ran before.
class RunningUnit {
 public:
  enum class Run { kFirst, kAgain };
  // `index`: of the unit in its model, which gives it random numbers of its own, the same in every run; the
  // number of units for the loss and the outputs.
  RunningUnit(ForwardContext& context, uint64_t index, Run run = Run::kFirst);
  ~RunningUnit();
  RunningUnit(const RunningUnit&) = delete;

  // Returns the innermost one of this thread; null, or FAILED_PRECONDITION, if there is none.
  static RunningUnit* find();
  static RunningUnit& current();

  ForwardContext& context() const { return context_; }
  bool runs_again() const { return run_ == Run::kAgain; }
  // Returns the next random number of this unit, if its context has a seed.
  std::optional<uint64_t> draw();

  // Returns what `owner` keeps until the unit ends, made when it is asked for first: what layers share that
  // read the same input. An owner always asks for the same type.
  template <class T>
  T& kept(const void* owner) {
    std::shared_ptr<void>& place = place_of(owner);
    if (place == nullptr) place = std::make_shared<T>();
    return *static_cast<T*>(place.get());
  }

 private:
  std::shared_ptr<void>& place_of(const void* owner);

  ForwardContext& context_;
  const Run run_;
  RunningUnit* const outer_;
  uint64_t random_;
  std::vector<std::pair<const void*, std::shared_ptr<void>>> kept_;
};

}  // namespace weft::nn

// Records how a backward violated the options of a data-parallel strategy, such as a parameter without a
// gradient. All ranks agree on the fault before they throw: a rank that threw alone would leave the others
// waiting.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <string>

#include "weft/torch/handles.hpp"

namespace weft::plugin::kit {

// The faults of one backward.
class GraphFaults {
 public:
  // The kinds of faults, in the order in which they are reported.
  enum Fault : int64_t { kUnused = 1, kNoLongerUsed = 2, kNewlyUsed = 3 };

  // Records a fault of parameter `index` on this rank in the current backward.
  void note(int64_t index, Fault fault) { own_ = std::max<int64_t>(own_, 4 * index + fault); }

  // Starts an all-reduce of the faults. Every rank must call it at the same point of the backward.
  void start(Communicator ranks);

  // Throws on every rank if there was a fault on any rank. `name_of` returns the name of a parameter by its
  // index.
  void finish(const std::function<std::string(int64_t)>& name_of);

 private:
  static std::string text_of(int64_t fault);

  int64_t own_ = 0;  // the largest 4 * index + fault of this rank
  at::Tensor worst_;
  Work work_;
};

}  // namespace weft::plugin::kit

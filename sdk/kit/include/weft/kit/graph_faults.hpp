// Records what parameters did in a backward that the options of a data-parallel strategy forbid. All ranks
// agree on the fault before any of them throws: one that threw alone would leave the others waiting.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <string>

#include "weft/torch/handles.hpp"

namespace weft::kit {

// The faults of one backward, on which all ranks agree.
class GraphFaults {
 public:
  // In the order in which they are reported.
  enum Fault : int64_t { kUnused = 1, kNoLongerUsed = 2, kNewlyUsed = 3 };

  // Records that parameter `index` did this on this rank in the backward that is running.
  void note(int64_t index, Fault fault) { own_ = std::max<int64_t>(own_, 4 * index + fault); }

  // Starts to compare the faults of all ranks. Every rank calls it at the same place.
  void start(Communicator ranks);

  // Throws on every rank if there was a fault on any; `name_of` returns the name of a parameter by its index.
  void finish(const std::function<std::string(int64_t)>& name_of);

 private:
  static std::string text_of(int64_t fault);

  int64_t own_ = 0;  // the largest 4 * index + fault of this rank
  at::Tensor worst_;
  Work work_;
};

}  // namespace weft::kit

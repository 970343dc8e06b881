// What parameters did that the options of a data-parallel strategy forbid, agreed on by all ranks: one that
// threw alone would leave the others waiting for its sums.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <string>

#include "handles.hpp"

namespace weft {
inline namespace sdk_v0 {

class GraphFaults {
 public:
  // In the order of what is told first.
  enum Fault : int64_t { kUnused = 1, kNoLongerUsed = 2, kNewlyUsed = 3 };

  // On this rank, parameter `index` did this in the backward that is running.
  void note(int64_t index, Fault fault) { own_ = std::max<int64_t>(own_, 4 * index + fault); }

  // Every rank calls it at the same place.
  void start(Communicator ranks) {
    worst_ = at::full({1}, own_, at::kLong);
    work_ = ranks.all_reduce(worst_, WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL);
  }

  // Throws on every rank if there was a fault on any; `name_of` gives the name of a parameter by its index.
  template <class NameOf>
  void finish(const NameOf& name_of) {
    work_.wait();
    const int64_t worst = *worst_.const_data_ptr<int64_t>();
    if (worst == 0) return;
    throw Error(WEFT_FAILED_PRECONDITION, "parameter " + name_of(worst / 4) +
                                              (worst == own_ ? " on this rank" : " on another rank") +
                                              text_of(worst % 4));
  }

 private:
  static std::string text_of(int64_t fault) {
    if (fault == kUnused)
      return " got no gradient in this backward: it was not used; set find_unused_parameters=true if that is "
             "meant";
    return (fault == kNoLongerUsed ? " got no gradient in this backward but got one in the first"
                                   : " has a gradient but had none in the first backward") +
           std::string(": the graph is not static; turn static_graph off");
  }

  int64_t own_ = 0;  // the largest 4 * index + fault of this rank
  at::Tensor worst_;
  Work work_;
};

}  // namespace sdk_v0
}  // namespace weft

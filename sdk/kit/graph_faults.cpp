#include "weft/kit/graph_faults.hpp"

#include <ATen/ops/full.h>

#include "weft/torch/values.hpp"

namespace weft::plugin::kit {

void GraphFaults::start(Communicator ranks) {
  worst_ = at::full({1}, own_, at::kLong);
  work_ = ranks.all_reduce(worst_, WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL);
}

void GraphFaults::finish(const std::function<std::string(int64_t)>& name_of) {
  work_.wait();
  const int64_t worst = values_of<int64_t>(worst_).front();
  if (worst == 0) return;
  throw Error(WEFT_FAILED_PRECONDITION, "parameter " + name_of(worst / 4) +
                                            (worst == own_ ? " on this rank" : " on another rank") +
                                            text_of(worst % 4));
}

std::string GraphFaults::text_of(int64_t fault) {
  if (fault == kUnused)
    return " got no gradient in this backward: it was not used; set find_unused_parameters=true if that is "
           "meant";
  return (fault == kNoLongerUsed ? " got no gradient in this backward but got one in the first"
                                 : " has a gradient but had none in the first backward") +
         std::string(": the graph is not static; turn static_graph off");
}

}  // namespace weft::plugin::kit

// Puts the results of micro-batches together.
#include <ATen/ops/cat.h>

#include "training/step.hpp"

namespace weft {

Training::Forward joined_results(const std::vector<MicroBatch>& micro) {
  std::vector<const Training::Forward*> results;
  for (const MicroBatch& of : micro)
    if (!of.batch.empty) results.push_back(&of.result);
  // The outputs of a stand-in still have names and dtypes.
  if (results.empty() && !micro.empty()) results.push_back(&micro.front().result);
  if (results.empty()) return {};
  Training::Forward joined = *results.front();
  if (results.size() == 1) return joined;
  for (auto& [name, tensor] : joined.outputs) {
    std::vector<at::Tensor> parts;
    for (const Training::Forward* result : results) parts.push_back(result->outputs.at(name));
    tensor = at::cat(parts);
  }
  for (size_t i = 1; i < results.size(); ++i) {
    const Training::Forward& result = *results[i];
    TORCH_INTERNAL_ASSERT(result.terms.size() == joined.terms.size() &&
                          result.counts.size() == joined.counts.size());
    for (size_t t = 0; t < joined.terms.size(); ++t)
      joined.terms[t].sum = joined.terms[t].sum.to(at::kDouble) + result.terms[t].sum;
    for (size_t t = 0; t < joined.counts.size(); ++t) joined.counts[t].count += result.counts[t].count;
  }
  return joined;
}

}  // namespace weft

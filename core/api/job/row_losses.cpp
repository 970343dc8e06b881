#include "job/row_losses.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <vector>

#include "booster/running.hpp"
#include "device/tensors.hpp"

namespace weft {

namespace {

// Returns sample `row` of a batch, or a stand-in if this rank has no such sample.
Batch sample_of(const Batch& batch, int64_t row, int64_t count) {
  Batch sample;
  sample.empty = row >= count;
  for (const auto& [name, tensor] : batch)
    sample.set(name, tensor.narrow(0, std::min(row, batch.samples() - 1), 1));
  return sample;
}

// Returns how many samples run in one forward: as many micro-batches as the schedule of the stages wants.
int64_t samples_per_forward(const Bindings& bindings) {
  const PipelineOptions& options = bindings.options().host.pipeline;
  return options.micro_batch_size ? options.size : options.micro_batches.value_or(options.size);
}

}  // namespace

at::Tensor row_losses(Training& training, const Batch& batch, const OwnRows& rows) {
  Bindings& bindings = training.bindings();
  const EvaluationMode mode(bindings.model());
  const std::string wanted = bindings.model().perplexity_term();
  std::vector<double> sums(static_cast<size_t>(2 * rows.all), 0);
  const int64_t step = samples_per_forward(bindings);
  // All ranks run as many forwards, because strategies communicate in them.
  for (int64_t begin = 0; begin < rows.most; begin += step) {
    std::vector<Batch> samples;
    for (int64_t i = 0; i < step; ++i) samples.push_back(sample_of(batch, begin + i, rows.count));
    const std::vector<Training::Forward> results = training.run_each_forward(samples);
    for (int64_t i = 0; i < step && begin + i < rows.count; ++i) {
      const Training::Forward& result = results[static_cast<size_t>(i)];
      for (size_t t = 0; t < result.terms.size(); ++t) {
        if (result.terms[t].name != wanted) continue;
        const auto at = static_cast<size_t>(2 * (rows.first + begin + i));
        sums[at] = device::value_of<double>(result.terms[t].sum);
        sums[at + 1] = result.counts[t].count;
      }
    }
  }
  const at::Tensor all = at::tensor(sums, at::kDouble).view({rows.all, 2});
  const Mesh& mesh = bindings.mesh();
  for (const Axes axes : {Mesh::stages(), Mesh::samples()})
    if (mesh.splits(axes)) bindings.comm(axes)->communicator.all_reduce(all, ReduceOp::kSum, true).wait();
  // The ranks that divide the sequence of a sample have counted it each.
  return all.div_(static_cast<double>(mesh.sequence_size()));
}

}  // namespace weft

#include "training/micro_batches.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "device/tensors.hpp"

namespace weft {

namespace {

// Returns samples [begin, end) of a batch, or a stand-in if there are none.
Batch part_of(const Batch& batch, int64_t begin, int64_t end) {
  Batch part;
  part.empty = batch.empty || begin == end;
  const int64_t from = std::min(begin, batch.samples() - 1), count = std::max<int64_t>(1, end - begin);
  for (const auto& [name, tensor] : batch) part.set(name, tensor.narrow(0, from, count));
  return part;
}

std::vector<Batch> equal_parts(const Batch& batch, int64_t parts) {
  if (parts == 1) return {batch};
  const int64_t samples = batch.samples();
  std::vector<Batch> made;
  for (int64_t p = 0; p < parts; ++p)
    made.push_back(part_of(batch, samples * p / parts, samples * (p + 1) / parts));
  return made;
}

}  // namespace

std::vector<Batch> micro_batches(const Batch& batch, int64_t accumulate, const PipelineOptions& pipeline) {
  if (!pipeline.micro_batch_size)
    return equal_parts(batch, accumulate * pipeline.micro_batches.value_or(pipeline.size));
  const int64_t size = *pipeline.micro_batch_size;
  std::vector<Batch> made;
  for (const Batch& part : equal_parts(batch, accumulate)) {
    const int64_t samples = part.samples();
    for (int64_t begin = 0; begin < samples; begin += size)
      made.push_back(part_of(part, begin, std::min(begin + size, samples)));
  }
  return made;
}

std::vector<Batch> micro_batches(const Batch& batch, int64_t accumulate, const PipelineOptions& pipeline,
                                 const Communicator& samples) {
  std::vector<Batch> made = micro_batches(batch, accumulate, pipeline);
  if (!pipeline.micro_batch_size) return made;
  const at::Tensor most = at::tensor({static_cast<int64_t>(made.size())}, at::kLong);
  samples.all_reduce(most, ReduceOp::kMax, true).wait();
  made.resize(static_cast<size_t>(device::value_of<int64_t>(most)),
              part_of(batch, batch.samples(), batch.samples()));
  return made;
}

}  // namespace weft

// What a user asks of the pipeline axis: the options of the group "pipeline_axis".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

struct PipelineOptions {
  uint32_t size = 1;                                       // ranks along the pipeline axis: the stages
  std::string style = "1f1b";                              // of the schedule
  uint32_t chunks = 1;                                     // virtual stages that each stage runs
  std::optional<int64_t> micro_batches, micro_batch_size;  // at most one of them is given
  uint32_t virtual_stages() const { return size * chunks; }
  // Returns the number of micro-batches into which `samples` samples, at least one, are split.
  int64_t num_micro_batches(int64_t samples) const {
    if (size == 1) return 1;
    if (micro_batches) return *micro_batches;
    return micro_batch_size ? (samples - 1) / *micro_batch_size + 1 : size;
  }
};

}  // namespace weft

// Placement policies: in which pool each chunk is kept, and how long it stays gathered.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weft::plugin::gemini {

// The options of the same names in Colossal-AI.
struct PlacementOptions {
  std::string policy = "static";  // static, auto, cpu, cuda, const
  double shard_param_frac = 1, offload_optim_frac = 0, offload_param_frac = 0;
  double warmup_non_model_data_ratio = 0.8, steady_cuda_cap_ratio = 0.9, gpu_margin_mem_ratio = 0;
};

// Throws INVALID_ARGUMENT for options that contradict each other.
void check(const PlacementOptions& options);

struct Placement {
  // By chunk: master weights and optimizer states are in host memory.
  std::vector<bool> optimizer_on_host;
  // By chunk: this rank's part in the working dtype stays on the accelerator, although the master weights do
  // not.
  std::vector<bool> shard_on_accelerator;
  // By chunk: it stays gathered from its forward to its backward.
  std::vector<bool> kept_gathered;
  // Chunks stay gathered until other chunks need their memory.
  bool evicts = false;
  bool measures = false;  // the first step measures the memory for gathered chunks (auto)
  int64_t room =
      std::numeric_limits<int64_t>::max();  // otherwise the bytes of gathered chunks are limited to this
};

// Returns the placement of chunks that take `bytes` each while they are gathered.
Placement place(const PlacementOptions& options, const std::vector<int64_t>& bytes);

}  // namespace weft::plugin::gemini

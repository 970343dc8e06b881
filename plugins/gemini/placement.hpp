// Where chunks live and how long they stay gathered: the placement policies.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace weft::gemini {

// Colossal-AI's options of the same names.
struct PlacementOptions {
  std::string policy = "static";  // static, auto, cpu, cuda, const
  double shard_param_frac = 1, offload_optim_frac = 0, offload_param_frac = 0;
  double warmup_non_model_data_ratio = 0.8, steady_cuda_cap_ratio = 0.9, gpu_margin_mem_ratio = 0;
};

// Throws INVALID_ARGUMENT for options that contradict each other.
void check(const PlacementOptions& options);

struct Placement {
  // By chunk: master values and what the optimizer keeps are the host's.
  std::vector<bool> optimizer_on_host;
  // By chunk: although they are, its working values stay on the accelerator too.
  std::vector<bool> shard_on_accelerator;
  // By chunk: stays gathered from its forward to its backward.
  std::vector<bool> kept_gathered;
  // Chunks stay gathered until others need the room, which is measured.
  bool evicts = false;
  bool measures = false;                               // the room is what a first step leaves (auto)
  int64_t room = std::numeric_limits<int64_t>::max();  // where it is not: bytes of gathered chunks
};

// `bytes` of each chunk while it is gathered.
Placement place(const PlacementOptions& options, const std::vector<int64_t>& bytes);

}  // namespace weft::gemini

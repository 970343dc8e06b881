#include "placement.hpp"

#include <numeric>

#include "weft/error.hpp"

namespace weft::plugin::gemini {

namespace {

constexpr int64_t kConstRoom = int64_t{512} << 20;  // what the policy "const" of Colossal-AI keeps gathered

[[noreturn]] void refuse(const std::string& what) {
  throw Error(WEFT_INVALID_ARGUMENT, "gemini: " + what);
}

// Converts an older policy to the fractions of the static one.
PlacementOptions resolved(PlacementOptions options) {
  if (options.policy == "cuda") options.shard_param_frac = options.offload_optim_frac = 0;
  if (options.policy == "cuda") options.offload_param_frac = 0;
  if (options.policy != "static" && options.policy != "cuda")
    options.shard_param_frac = options.offload_optim_frac = options.offload_param_frac = 1;
  return options;
}

// Marks chunks, beginning with the first, until they have `fraction` of all bytes.
std::vector<bool> first_part(const std::vector<int64_t>& bytes, double fraction) {
  const double target =
      fraction * static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  std::vector<bool> marked(bytes.size());
  double sum = 0;
  for (size_t i = 0; i < bytes.size() && sum < target; ++i) {
    marked[i] = true;
    sum += static_cast<double>(bytes[i]);
  }
  return marked;
}

}  // namespace

void check(const PlacementOptions& options) {
  if (options.offload_param_frac > 0 && (options.shard_param_frac != 1 || options.offload_optim_frac != 1))
    refuse("offload_param_frac is " + std::to_string(options.offload_param_frac) +
           ", which needs shard_param_frac=1 and offload_optim_frac=1");
}

Placement place(const PlacementOptions& given, const std::vector<int64_t>& bytes) {
  const PlacementOptions options = resolved(given);
  Placement placement;
  placement.measures = options.policy == "auto";
  placement.evicts = placement.measures || options.policy == "const";
  if (options.policy == "const") placement.room = kConstRoom;
  placement.optimizer_on_host = first_part(bytes, options.offload_optim_frac);
  const std::vector<bool> offloaded = first_part(bytes, options.offload_param_frac);
  placement.shard_on_accelerator.resize(bytes.size());
  placement.kept_gathered.resize(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i)
    placement.shard_on_accelerator[i] = placement.optimizer_on_host[i] && !offloaded[i];
  // Marks the last chunks, because the time from their forward to their backward is shortest.
  const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  double room = (1 - options.shard_param_frac) * static_cast<double>(total);
  for (size_t i = bytes.size(); i-- > 0;) {
    if (static_cast<double>(bytes[i]) > room) continue;
    placement.kept_gathered[i] = true;
    room -= static_cast<double>(bytes[i]);
  }
  return placement;
}

}  // namespace weft::plugin::gemini

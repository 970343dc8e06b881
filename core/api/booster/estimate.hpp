// Estimates the memory and communication of a job from shapes alone: by the formulas of the strategies, and
// by a forward on the meta device for activations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "booster/host_options.hpp"
#include "plan/traffic.hpp"
#include "weft/booster.hpp"
#include "weft/model.hpp"
#include "weft/strategy.h"

namespace weft {

struct MicroBatchShape {
  int64_t batch_size = 1;  // of one rank
  int64_t sequence_length = 0;
};

// Throws INVALID_ARGUMENT unless the sizes of the tensor, pipeline and sequence axes divide the number of
// ranks.
void check_ranks(const HostOptions& host, int64_t world_size);

// Returns the number of pipeline stages of the booster's strategy.
uint32_t num_stages(const BoosterOptions& booster);

// Returns the bytes that forwards without dropout save for backward, on the first rank of the booster's
// tensor and sequence axes in pipeline stage `stage`: of one forward, or of as many micro-batches as its
// schedule keeps at once there. A split backward counts as if it kept everything until its second half.
// Returns nothing if the model has no example batch. Throws UNIMPLEMENTED if attention runs in its plain
// form.
std::optional<int64_t> activation_bytes(const Model& model, const BoosterOptions& booster,
                                        const MicroBatchShape& shape, uint32_t stage = 0);

// Returns the bytes that one rank of `world_size` in this stage holds under the booster's strategy, and what
// it sends over the data axes. Returns nothing if the strategy has no estimate. Throws UNIMPLEMENTED for
// autocast.
std::optional<weft_job_estimate> estimate_job(const Model& model, const BoosterOptions& booster,
                                              int64_t world_size, uint32_t stage = 0);

// Returns what the first rank of the booster's tensor and sequence axes sends over them in one forward and
// backward, as if every parameter were trained; bytes by collective. The first function returns nothing if
// the model has no example batch or says no lengths of its sequences.
std::optional<plan::SentBytes> estimate_layers(const Model& model, const BoosterOptions& booster,
                                               const MicroBatchShape& shape);
plan::SentBytes estimate_layers(const Model& model, const BoosterOptions& booster, const Batch& batch);

// Returns the names of the installed strategies, sorted.
std::vector<std::string> strategy_names();

}  // namespace weft

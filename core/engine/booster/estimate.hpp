// What a job of a model would hold and send under each strategy, from shapes alone: the strategies' own
// formulas, and activations from a forward without memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/booster.hpp"
#include "weft/model.hpp"
#include "weft/strategy.h"

namespace weft {

struct MicroBatchShape {
  int64_t batch_size = 1;  // of one rank
  int64_t sequence_length = 0;
};

// Returns the bytes that the operations of one forward save for backward on the first rank of the booster's
// tensor and sequence axes, without dropout; nothing if the model has no example of a batch. UNIMPLEMENTED
// with enable_flash_attention false.
std::optional<int64_t> activation_bytes(const Model& model, const BoosterOptions& booster,
                                        const MicroBatchShape& shape);

// One rank of `world_size` under the booster's strategy, in its precision; what it sends on the data axes.
// Nothing if the strategy tells no estimate; autocast is UNIMPLEMENTED.
std::optional<weft_job_estimate> estimate_job(const Model& model, const BoosterOptions& booster,
                                              int64_t world_size);

// The strategies that are installed, by name.
std::vector<std::string> strategy_names();

}  // namespace weft

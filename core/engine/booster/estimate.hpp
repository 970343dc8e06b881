// What a job of a model would hold and send under each strategy, from shapes alone: the strategies' own
// formulas, and activations from a forward without memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/model.hpp"
#include "weft/strategy.h"

namespace weft {

struct EstimateOptions {
  int64_t world_size = 1;
  int64_t batch_size = 1;  // of one rank
  int64_t sequence_length = 0;
  std::string precision = "fp32";
  std::string recompute = "off";
};

// Bytes that the operations of one forward save for backward, without dropout; nothing if the model has no input_ids.
std::optional<int64_t> activation_bytes(const Model& model, const EstimateOptions& options);

// One strategy by name ("none" too) with its options as JSON. Nothing if the strategy tells no estimate.
std::optional<weft_job_estimate> estimate_job(const Model& model, const std::string& strategy,
                                              const std::string& strategy_options,
                                              const EstimateOptions& options);

// The strategies that are installed, by name.
std::vector<std::string> strategy_names();

}  // namespace weft

// The user's flags that select the fused or the plain form of layers. A policy passes them on to its entries.
#pragma once

#include <weft/shard_policy.h>

#include "plan/plan.hpp"
#include "weft/operation.hpp"

namespace weft::plan {

// One flag.
struct FormFlag {
  const char* name;  // in a policy; the user's option is "enable_" and this name
  bool ParallelSizes::*value;
  uint32_t weft_parallel::*given;  // the field in which the policy reads it
  Fact performed;                  // stated by an entry that runs the plain form
  const char* layers;              // that have the two forms, for messages
};

inline constexpr FormFlag kFormFlags[] = {
    {"fused_normalization", &ParallelSizes::fused_normalization, &weft_parallel::fused_normalization,
     Fact::kPlainNormalization, "norm"},
    {"flash_attention", &ParallelSizes::flash_attention, &weft_parallel::flash_attention,
     Fact::kPlainAttention, "attention"},
    {"jit_fused", &ParallelSizes::jit_fused, &weft_parallel::jit_fused, Fact::kPlainElementwise,
     "activation or dropout"},
};

// Returns true if every flag is on, so that layers run in their default form.
inline bool leaves_forms(const ParallelSizes& sizes) {
  for (const FormFlag& flag : kFormFlags)
    if (!(sizes.*flag.value)) return false;
  return true;
}

}  // namespace weft::plan

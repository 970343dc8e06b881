// The user's flags that choose between two forms of a layer, which a policy passes on to its entries.
#pragma once

#include <weft/shard_policy.h>

#include "plan/plan.hpp"
#include "weft/operation.hpp"

namespace weft::plan {

struct FormFlag {
  const char* name;  // as a policy's; the option is "enable_" and this
  bool ParallelSizes::*value;
  uint32_t weft_parallel::*given;  // to the policy
  Fact performed;                  // of an entry that runs the form without it
  const char* layers;
};

inline constexpr FormFlag kFormFlags[] = {
    {"fused_normalization", &ParallelSizes::fused_normalization, &weft_parallel::fused_normalization,
     Fact::kPlainNormalization, "norm"},
    {"flash_attention", &ParallelSizes::flash_attention, &weft_parallel::flash_attention,
     Fact::kPlainAttention, "attention"},
    {"jit_fused", &ParallelSizes::jit_fused, &weft_parallel::jit_fused, Fact::kPlainElementwise,
     "activation or dropout"},
};

// Whether every layer runs in the form that it has by itself.
inline bool leaves_forms(const ParallelSizes& sizes) {
  for (const FormFlag& flag : kFormFlags)
    if (!(sizes.*flag.value)) return false;
  return true;
}

}  // namespace weft::plan

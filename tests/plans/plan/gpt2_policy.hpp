#pragma once

#include "policies/compiled_policy.hpp"

namespace weft::plan::test {

inline const weft_shard_policy& gpt2_policy() {
  return compiled_policy(WEFT_STR("gpt2"));
}

}  // namespace weft::plan::test

#pragma once

#include "policies/compiled_policy.hpp"

namespace weft::plan::test {

inline Policy gpt2_policy() {
  return compiled_policy("gpt2");
}

}  // namespace weft::plan::test

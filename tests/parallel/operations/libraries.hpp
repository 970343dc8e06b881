// The libraries of operations that the tests use.
#pragma once

#include <stdlib.h>

#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"

namespace weft::test {

inline const bool kFindsOperations = setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_OPERATIONS, 1) == 0;

inline constexpr const char* kGpt2Layers = "h.*.attn.c_attn, h.*.attn.c_proj, h.*.mlp.c_fc, h.*.mlp.c_proj";

inline std::string low_rank(const std::string& pattern, int64_t rank = 3) {
  return R"({"operation": "sample.low_rank/1", "on": ")" + pattern + R"(", "alpha": 6, "rank": )" +
         std::to_string(rank) + "}";
}

// Returns the trial with an adapter on the layers that match `pattern`.
inline Trial adapted(Trial trial, const std::string& pattern) {
  trial.model = [plain = trial.model, pattern](const JobOptions& options) {
    Model model = plain(options);
    model.adapt(low_rank(pattern));
    return model;
  };
  return trial;
}

}  // namespace weft::test

// The libraries of operations that the tests use.
#pragma once

#include <stdlib.h>

#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"

namespace weft::test {

inline const bool kFindsOperations = setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_OPERATIONS, 1) == 0;

inline constexpr const char* kGpt2Layers = "h.*.attn.c_attn, h.*.attn.c_proj, h.*.mlp.c_fc, h.*.mlp.c_proj";

inline std::string low_rank(const std::string& pattern, int64_t rank = 3,
                            const std::string& operation = "sample.low_rank/1") {
  return R"({"operation": ")" + operation + R"(", "on": ")" + pattern + R"(", "alpha": 6, "rank": )" +
         std::to_string(rank) + "}";
}

// Returns the trial with an adapter on the layers that match `pattern`.
inline Trial adapted(Trial trial, const std::string& pattern,
                     const std::string& operation = "sample.low_rank/1") {
  trial.model = [plain = trial.model, adapter = low_rank(pattern, 3, operation)](const JobOptions& options) {
    Model model = plain(options);
    model.adapt(adapter);
    return model;
  };
  return trial;
}

inline JobOptions under(const std::string& strategy, const std::string& options) {
  return {.strategy = strategy, .options = options, .precision = "fp64"};
}

// Compares the gradients of the second step with those of one rank. Of the first step those of some factors
// are zero, because others begin at zero. `trained` says of a parameter whether it has a gradient.
void expect_second_step_of_one_rank(const JobOptions& options, const Trial& trial, int ranks,
                                    bool (*trained)(const std::string& name));

}  // namespace weft::test

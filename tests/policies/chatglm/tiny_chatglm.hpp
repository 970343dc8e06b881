// Tiny ChatGLM2 models for training, with sizes that are not multiples of the number of ranks.
#pragma once

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

// Some keys of the configuration: 4 query heads in 4, 2 or 1 groups, or without groups.
inline constexpr const char* kUngrouped = R"("add_qkv_bias": true)";
inline constexpr const char* kTwoGroups =
    R"("multi_query_attention": true, "multi_query_group_num": 2, "add_qkv_bias": true)";
// What the published models do not use.
inline constexpr const char* kOneGroup =
    R"("multi_query_attention": true, "multi_query_group_num": 1, "rmsnorm": false, "add_bias_linear": true,
       "apply_residual_connection_post_layernorm": true, "post_layer_norm": false)";

// Two layers, 23 tokens.
Model tiny_chatglm(const std::string& keys, const std::string& precision,
                   const std::string& architecture = "ChatGLMForConditionalGeneration");

// Within 5e-5 of one rank in fp32 and 1e-10 in fp64.
Trial chatglm_trial(const std::string& keys, const std::string& precision,
                    const std::string& architecture = "ChatGLMForConditionalGeneration");
// Rows of 3 to 7 tokens, with padding on either side and labels of all tokens.
Trial padded_chatglm_trial(const std::string& keys, const std::string& precision);

}  // namespace weft::test

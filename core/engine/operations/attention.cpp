// Attention and its position bias.
#include <weft/shard_policy.h>

#include "base/text.hpp"
#include "operations/attribute_rules.hpp"
#include "plan/cut_rules.hpp"

namespace weft::operations {

namespace {

plan::AttributeRule flash() {
  return flag("flash", true, "attention runs as one kernel where there is one; false: step by step");
}

// Shards the heads of a position bias, its second dimension.
void cut_heads(plan::PlannedNode& node, const plan::CutRequest& request, std::vector<std::string>& problems) {
  for (plan::PlannedParameter& param : node.params) {
    const std::string problem = split_parameter(param, {.dim = 1}, request.sizes);
    if (!problem.empty()) problems.push_back(fmt::format("has a {} {}", param.name, problem));
  }
}

}  // namespace

plan::Operation attention() {
  return {.id = "weft.attention/1",
          .documentation = "attends to all positions of the sequence",
          .kinds = {"Attention"},
          .attributes = {flash()},
          .communication = {.keeps = "all",
                            .forward = "on a sequence axis queries, keys and values (all_to_all) or keys and "
                                       "values (ring_attn)",
                            .backward = "the same"},
          .claims = {{plan::Fact::kAttends}, {plan::Fact::kPlainAttention, "flash", false}}};
}

plan::Operation cross_attention() {
  return {.id = "weft.cross_attention/1",
          .documentation = "attends to all positions of another sequence",
          .kinds = {"Attention"},
          .attributes = {flash(), text("source", "", {},
                                       "the module below which the sequence of its keys and values begins")},
          .communication = {
              .keeps = "all", .forward = "as `weft.attention/1`", .backward = "as `weft.attention/1`"}};
}

plan::Operation attention_bias() {
  return {.id = "weft.attention_bias/1",
          .documentation = "computes the bias by position of the heads and queries that attention has here",
          .kinds = {"RelativeAttentionBias"},
          .attributes = {},
          .communication = {.keeps = "the numbers of some heads"},
          .cut = cut_heads};
}

}  // namespace weft::operations

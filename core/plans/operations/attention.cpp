// Attention and its position bias.
#include <weft/shard_policy.h>

#include "base/text.hpp"
#include "operations/attribute_rules.hpp"
#include "weft/split_parameter.hpp"

namespace weft::operations {

namespace {

using Kind = plan::Transfer::Kind;

plan::AttributeRule flash() {
  return flag("flash", true,
              "true: the form that the user's options choose; false: always matrix products and a softmax");
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
          .documentation = "computes attention over all positions of the sequence",
          .kinds = {"Attention"},
          .attributes = {flash()},
          .keeps = "no parameters",
          .transfers = {{Kind::kAttend}},
          .claims = {{plan::Fact::kAttends}, {plan::Fact::kPlainForm, "flash", false}}};
}

plan::Operation cross_attention() {
  return {.id = "weft.cross_attention/1",
          .documentation = "computes attention to all positions of another sequence",
          .kinds = {"Attention"},
          .attributes = {flash(),
                         text("source", "", {},
                              "path of the module below which the sequence of the keys and values begins")},
          .keeps = "no parameters",
          .transfers = {{Kind::kAttendSource}},
          .claims = {{plan::Fact::kAttends}, {plan::Fact::kPlainForm, "flash", false}}};
}

plan::Operation alibi() {
  return {.id = "weft.alibi/1",
          .documentation = "computes the linear position bias of this rank's heads",
          .kinds = {"Alibi"},
          .attributes = {},
          .keeps = "no parameters"};
}

plan::Operation attention_bias() {
  return {.id = "weft.attention_bias/1",
          .documentation = "computes the position bias of this rank's heads and queries",
          .kinds = {"RelativeAttentionBias"},
          .attributes = {},
          .keeps = "its heads",
          .cut = cut_heads};
}

}  // namespace weft::operations

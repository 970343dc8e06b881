// Normalization layers of the residual stream, and of the heads of attention.
#include <weft/shard_policy.h>

#include "operations/attribute_rules.hpp"

namespace weft::operations {

namespace {

using Kind = plan::Transfer::Kind;

plan::Operation norm(std::string id, std::string kind) {
  return {
      .id = std::move(id),
      .documentation = "normalizes features",
      .kinds = {std::move(kind)},
      .attributes = {in_one_pass(), flag("split", false,
                                         "the layer is inside a tensor-parallel region, where each rank "
                                         "normalizes its own heads, so the gradients of its parameters are "
                                         "summed over the ranks")},
      .keeps = "all",
      .transfers = {{Kind::kGradients, "split", "true"}, {Kind::kOwnGradients}},
      .claims = {{plan::Fact::kPlainForm, "fused", false}}};
}

}  // namespace

plan::Operation layer_norm() {
  return norm("weft.layer_norm/1", "LayerNorm");
}

plan::Operation rms_norm() {
  return norm("weft.rms_norm/1", "RMSNorm");
}

}  // namespace weft::operations

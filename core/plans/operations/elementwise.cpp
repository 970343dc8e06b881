// Layers that compute each element separately.
#include <weft/shard_policy.h>

#include "operations/attribute_rules.hpp"

namespace weft::operations {

plan::Operation activation() {
  return {.id = "weft.activation/1",
          .documentation = "computes an activation",
          .kinds = {"Activation"},
          .attributes = {in_one_pass()},
          .keeps = "no parameters",
          .claims = {{plan::Fact::kPlainForm, "fused", false}}};
}

plan::Operation dropout() {
  return {
      .id = "weft.dropout/1",
      .documentation = "drops elements",
      .kinds = {"Dropout"},
      .attributes = {in_one_pass(),
                     flag("split", false,
                          "the layer is inside a tensor-parallel region, so each rank has masks of its own")},
      .keeps = "no parameters",
      .claims = {{plan::Fact::kPlainForm, "fused", false}}};
}

}  // namespace weft::operations

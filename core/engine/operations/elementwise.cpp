// Layers that compute each element separately.
#include <weft/shard_policy.h>

#include "operations/attribute_rules.hpp"

namespace weft::operations {

plan::Operation activation() {
  return {.id = "weft.activation/1",
          .documentation = "chooses the form of an activation",
          .kinds = {"Activation"},
          .attributes = {in_one_pass()},
          .communication = {},
          .claims = {{plan::Fact::kPlainElementwise, "fused", false}}};
}

plan::Operation dropout() {
  return {.id = "weft.dropout/1",
          .documentation = "chooses the form of a dropout and whose masks it has",
          .kinds = {"Dropout"},
          .attributes = {in_one_pass(), flag("split", false,
                                             "it sees a part of the activation, so it has masks of its own")},
          .communication = {},
          .claims = {{plan::Fact::kPlainElementwise, "fused", false}}};
}

}  // namespace weft::operations

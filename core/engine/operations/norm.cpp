// Normalization layers of the residual stream.
#include <weft/shard_policy.h>

#include "operations/attribute_rules.hpp"

namespace weft::operations {

namespace {

plan::Operation norm(std::string id, std::string kind) {
  return {.id = std::move(id),
          .documentation = "normalizes the positions of the residual stream",
          .kinds = {std::move(kind)},
          .attributes = {in_one_pass(), flag("split", false, "it sees some of the positions of a sequence")},
          .communication = {.keeps = "all", .backward = "with `split` the gradient of its parameters"},
          .claims = {{plan::Fact::kPlainNormalization, "fused", false}}};
}

}  // namespace

plan::Operation layer_norm() {
  return norm("weft.layer_norm/1", "LayerNorm");
}

plan::Operation rms_norm() {
  return norm("weft.rms_norm/1", "RMSNorm");
}

}  // namespace weft::operations

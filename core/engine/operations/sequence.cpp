// The beginning and the end of a sequence, and a shared input of a region, at places without a layer of their
// own.
#include <weft/shard_policy.h>

#include "operations/attribute_rules.hpp"

namespace weft::operations {

plan::Operation parallel_input() {
  return {.id = "weft.parallel_input/1",
          .documentation = "lets a tensor enter a tensor-parallel region once for all that read it there",
          .kinds = {"Identity"},
          .attributes = {},
          .communication = {.keeps = "", .backward = "its gradient, for layers with `input = \"entered\"`"}};
}

plan::Operation sequence_begin() {
  return {.id = "weft.sequence_begin/1",
          .documentation = "takes the ids of a sequence of its own, for the modules below its parent",
          .kinds = {"Identity"},
          .attributes = {},
          .communication = {},
          .claims = {{plan::Fact::kBeginsNestedSequence}}};
}

plan::Operation sequence_end() {
  return {.id = "weft.sequence_end/1",
          .documentation = "gives every rank all positions of a split sequence",
          .kinds = {"Identity"},
          .attributes = {},
          .communication = {.keeps = "", .forward = "with split sequences its output is gathered"},
          .claims = {{plan::Fact::kEndsSequence}}};
}

}  // namespace weft::operations

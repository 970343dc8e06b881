// The beginning, the split and the end of a sequence, and a shared input of a region, at places without a
// layer of their own.
#include <weft/shard_policy.h>

#include "operations/attribute_rules.hpp"

namespace weft::operations {

namespace {

using Kind = plan::Transfer::Kind;

}  // namespace

plan::Operation parallel_input() {
  return {.id = "weft.parallel_input/1",
          .documentation = "lets several column-parallel layers share one input",
          .kinds = {"Identity"},
          .attributes = {},
          .keeps = "no parameters",
          .transfers = {{Kind::kEnter}}};
}

plan::Operation sequence_begin() {
  return {.id = "weft.sequence_begin/1",
          .documentation =
              "marks where the ids of a separate sequence enter, which the modules below its parent process",
          .kinds = {"Identity"},
          .attributes = {},
          .keeps = "no parameters",
          .claims = {{plan::Fact::kBeginsNestedSequence}}};
}

plan::Operation sequence_end() {
  return {.id = "weft.sequence_end/1",
          .documentation = "returns all positions of a split sequence on every rank",
          .kinds = {"Identity"},
          .attributes = {},
          .keeps = "no parameters",
          .transfers = {{Kind::kEnd}},
          .claims = {{plan::Fact::kEndsSequence}}};
}

plan::Operation sequence_split() {
  return {.id = "weft.sequence_split/1",
          .documentation = "splits a sequence of which every rank has computed all positions",
          .kinds = {"Identity"},
          .attributes = {},
          .keeps = "no parameters",
          .transfers = {{Kind::kSplit}},
          .claims = {{plan::Fact::kSplitsSequence}}};
}

}  // namespace weft::operations

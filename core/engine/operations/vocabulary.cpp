// Embeddings and the heads of language models.
#include <weft/shard_policy.h>

#include "base/text.hpp"
#include "operations/attribute_rules.hpp"
#include "plan/cut_rules.hpp"

namespace weft::operations {

namespace {

// Shards the rows; shards need not be equal.
void cut_rows_of_vocabulary(plan::PlannedNode& node, const plan::CutRequest& request,
                            std::vector<std::string>& problems) {
  for (plan::PlannedParameter& param : node.params) {
    const std::string problem = split_parameter(param, {.dim = 0, .equal = false}, request.sizes);
    if (!problem.empty()) problems.push_back(fmt::format("has a {} {}", param.name, problem));
  }
}

}  // namespace

plan::Operation embedding() {
  return {.id = "weft.embedding/1",
          .documentation = "looks up the positions of the residual stream in a whole table",
          .kinds = {"Embedding"},
          .attributes = {},
          .communication = {.keeps = "all", .backward = "with split sequences the gradient of its weight"},
          .claims = {{plan::Fact::kBeginsSequence}}};
}

plan::Operation embedding_vocab() {
  return {.id = "weft.embedding_vocab/1",
          .documentation = "looks up the ids of this rank's rows; the sum over the ranks is the whole",
          .kinds = {"Embedding"},
          .attributes = {},
          .communication = {.keeps = "some rows", .forward = "the output"},
          .cut = cut_rows_of_vocabulary,
          .claims = {{plan::Fact::kSplitsVocabulary}, {plan::Fact::kBeginsSequence}}};
}

plan::Operation linear_vocab() {
  return {.id = "weft.linear_vocab/1",
          .documentation = "computes the logits of this rank's classes, and the cross entropy of all",
          .kinds = {"Linear"},
          .attributes = {flag("parallel_output", false, "false: the logits of all ranks are gathered"),
                         flag("split", false, "the logits are those of this rank's positions")},
          .communication = {.keeps = "some rows",
                            .forward = "the logits where `parallel_output` is false; three numbers for each "
                                       "label in the loss where it is true",
                            .backward = "the gradient of the input"},
          .cut = cut_rows_of_vocabulary,
          .claims = {{plan::Fact::kSplitsVocabulary},
                     {plan::Fact::kDividesLogits, "parallel_output"},
                     {plan::Fact::kOwnPositions, "split"},
                     {plan::Fact::kEndsSequence, "split"}}};
}

}  // namespace weft::operations

// Embeddings and the heads of language models.
#include <weft/shard_policy.h>

#include "base/text.hpp"
#include "operations/attribute_rules.hpp"
#include "weft/split_parameter.hpp"

namespace weft::operations {

namespace {

using Kind = plan::Transfer::Kind;

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
          .documentation = "looks up this rank's positions in a replicated table",
          .kinds = {"Embedding"},
          .attributes = {},
          .keeps = "all",
          .transfers = {{Kind::kOwnGradients}},
          .claims = {{plan::Fact::kBeginsSequence}}};
}

plan::Operation embedding_vocab() {
  return {.id = "weft.embedding_vocab/1",
          .documentation = "looks up the ids of this rank's rows and sums the results over the ranks",
          .kinds = {"Embedding"},
          .attributes = {},
          .keeps = "its rows of the vocabulary",
          .transfers = {{Kind::kLeave}},
          .cut = cut_rows_of_vocabulary,
          .claims = {{plan::Fact::kSplitsVocabulary}, {plan::Fact::kBeginsSequence}}};
}

plan::Operation linear_vocab() {
  return {
      .id = "weft.linear_vocab/1",
      .documentation =
          "computes the logits of this rank's part of the vocabulary, and the cross entropy over all of it",
      .kinds = {"Linear"},
      .attributes =
          {flag("parallel_output", false,
                "true: each rank keeps its part of the logits; false: the logits are gathered"),
           flag("split", false,
                "the logits are those of this rank's positions, if a sequence axis splits sequences")},
      .keeps = "its rows of the vocabulary",
      .transfers = {{Kind::kEnterHead},
                    {Kind::kLogits, "parallel_output", "false"},
                    {Kind::kLoss, "parallel_output", "true"}},
      .cut = cut_rows_of_vocabulary,
      .claims = {{plan::Fact::kSplitsVocabulary},
                 {plan::Fact::kDividesLogits, "parallel_output"},
                 {plan::Fact::kOwnPositions, "split"},
                 {plan::Fact::kEndsSequence, "split"}}};
}

}  // namespace weft::operations

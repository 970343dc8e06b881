// The sequences of a model: plans that split one twice, never or before its embeddings, or do not end it.
#include "invented_policy.hpp"
#include "plan/json_policy.hpp"

namespace weft::plan::test {
namespace {

// Adds a module, with a weight if its kind has one.
void add(ModelDescription& model, const std::string& path, const std::string& kind, size_t order) {
  std::vector<ParameterShape> params;
  if (kind == "Embedding")
    params = {{"weight", {12, 4}}};
  else if (kind != "Identity" && kind != "Dropout" && kind != "Attention")
    params = {{"weight", {4}}};
  model.nodes.push_back(node(path, kind, params));
  model.nodes.back().order = order;
}

using Entries = std::vector<std::pair<std::string, std::string>>;  // patterns and their operations

Policy policy_of(const Entries& entries) {
  std::string text;
  for (const auto& [pattern, operation] : entries)
    text +=
        fmt::format(R"({}{{"on": "{}", "operation": "{}"}})", text.empty() ? "" : ", ", pattern, operation);
  return parse_json_policy(fmt::format(R"({{"name": "p", "entries": [{}]}})", text), "p.json");
}

// Returns these entries and those of a model that has one attention and ends its sequence once.
Policy with_attention_and_end(Entries entries) {
  entries.emplace_back("attention", "weft.attention/1");
  entries.emplace_back("end", "weft.sequence_end/1");
  return policy_of(entries);
}

// Every rank computes the embeddings of all positions.
TEST(Sequences, LeavesWhatIsBeforeTheSplitOfASequence) {
  ModelDescription model;
  add(model, "patches", "PatchConvolution", 0);
  add(model, "first", "LayerNorm", 0);
  add(model, "drop", "Dropout", 0);
  add(model, "begin", "Identity", 1);
  add(model, "second", "LayerNorm", 2);
  add(model, "attention", "Attention", 2);
  add(model, "end", "Identity", 3);
  add(model, "last", "LayerNorm", 4);
  const Policy with = with_attention_and_end({{"begin", "weft.sequence_split/1"}}),
               without = with_attention_and_end({});
  EXPECT_EQ(build_plan(model, with, kSplit).on_split_sequence, std::vector<std::string>{"second"});
  EXPECT_TRUE(unsupported(build_plan(model, with, kRing)).empty());
  EXPECT_TELLS(refusal(model, without, kSplit),
               "patches (PatchConvolution) has no entry, but sees this rank's positions only");
  const std::vector<std::string> reasons = unsupported(build_plan(model, without, kRing));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_TELLS(reasons[0],
               "has no entry that begins a split sequence (weft.embedding/1 or "
               "weft.embedding_vocab/1 or weft.sequence_split/1)");
  model.nodes.front().order = 2;
  EXPECT_TELLS(refusal(model, with, kSplit), "patches (PatchConvolution) has no entry");
}

TEST(Sequences, RefusesAnEmbeddingThatSplitsBeforeTheSplitOfASequence) {
  ModelDescription model;
  add(model, "words", "Embedding", 0);
  add(model, "begin", "Identity", 1);
  add(model, "attention", "Attention", 2);
  add(model, "end", "Identity", 3);
  for (const ParallelSizes& sizes : {kSplit, kRing}) {
    EXPECT_NO_THROW(build_plan(model, with_attention_and_end({{"begin", "weft.sequence_split/1"}}), sizes));
    for (const char* operation : {"weft.embedding/1", "weft.embedding_vocab/1"}) {
      const Policy both = with_attention_and_end({{"begin", "weft.sequence_split/1"}, {"words", operation}});
      EXPECT_TELLS(refusal(model, both, sizes),
                   fmt::format("words (\"words\" -> {}) splits the sequence, which begin (\"begin\" -> "
                               "weft.sequence_split/1) splits again after it; leave one of the entries out",
                               operation));
    }
  }
}

// What the second module gets is this rank's positions already.
TEST(Sequences, RefusesTwoModulesThatSplitTheSame) {
  ModelDescription model;
  for (const auto& [path, kind] : {std::pair("patches.begin", "Identity"), std::pair("begin", "Identity"),
                                   std::pair("attention", "Attention"), std::pair("end", "Identity")})
    add(model, path, kind, model.nodes.size() + 1);
  const auto policy = [](const std::vector<std::string>& patterns) {
    Entries splits;
    for (const std::string& pattern : patterns) splits.emplace_back(pattern, "weft.sequence_split/1");
    return with_attention_and_end(splits);
  };
  for (const ParallelSizes& sizes : {kSplit, kRing}) {
    EXPECT_TELLS(
        refusal(model, policy({"begin", "patches.begin"}), sizes),
        "begin (\"begin\" -> weft.sequence_split/1) splits the sequence, which patches.begin "
        "(\"patches.begin\" -> weft.sequence_split/1) has split before it; give the operation to one "
        "of these modules only");
    EXPECT_TELLS(refusal(model, policy({"begin, patches.begin"}), sizes),
                 "splits the sequence, which patches.begin (\"begin, patches.begin\" -> ");
    for (const char* one : {"begin", "patches.begin"})
      EXPECT_NO_THROW(build_plan(model, policy({one}), sizes));
  }
  EXPECT_NO_THROW(build_plan(model, policy({"begin", "patches.begin"}), kTwoRanks));
}

// Two sequences that one entry splits.
TEST(Sequences, AcceptsASplitOfEachOfSeveral) {
  ModelDescription model;
  for (const char* stack : {"encoder", "decoder"})
    for (const char* name : {"begin", "split", "end"})
      add(model, fmt::format("{}.{}", stack, name), "Identity", model.nodes.size() + 1);
  const Policy policy = policy_of({{"*.begin", "weft.sequence_begin/1"},
                                   {"*.split", "weft.sequence_split/1"},
                                   {"*.end", "weft.sequence_end/1"}});
  for (const ParallelSizes& sizes : {kSplit, kRing}) EXPECT_NO_THROW(build_plan(model, policy, sizes));
}

// An encoder with a sequence of its own below a decoder whose layers belong to the model: the sequence that
// the head reads is the decoder's.
TEST(Sequences, AcceptsANestedEncoderOfADecoderAtTheRoot) {
  ModelDescription model;
  add(model, "decoder_end", "Identity", 5);
  add(model, "decoder_norm", "RMSNorm", 4);
  add(model, "encoder.begin", "Identity", 0);
  add(model, "encoder.norm", "RMSNorm", 1);
  const Policy policy =
      policy_of({{"encoder.begin", "weft.sequence_begin/1"}, {"decoder_end", "weft.sequence_end/1"}});
  EXPECT_EQ(build_plan(model, policy, kSplit).on_split_sequence,
            (std::vector<std::string>{"decoder_norm", "encoder.norm"}));
}

// An encoder of spectra beside a decoder of tokens.
TEST(Sequences, RefusesASequenceThatIsNeverSplitBesideOneThatIs) {
  ModelDescription model;
  for (const char* name : {"encoder.begin", "encoder.split", "decoder.begin"})
    add(model, name, "Identity", 0);
  add(model, "decoder.tokens", "Embedding", 1);
  add(model, "encoder.attention", "Attention", 2);
  add(model, "encoder.end", "Identity", 3);
  add(model, "decoder.attention", "Attention", 4);
  add(model, "decoder.end", "Identity", 5);
  const auto policy = [](const Entries& more) {
    Entries entries = {{"*.begin", "weft.sequence_begin/1"},
                       {"decoder.tokens", "weft.embedding/1"},
                       {"*.attention", "weft.attention/1"},
                       {"*.end", "weft.sequence_end/1"}};
    entries.insert(entries.end(), more.begin(), more.end());
    return policy_of(entries);
  };
  EXPECT_TELLS(
      refusal(model, policy({}), kRing),
      "encoder has a sequence of which every rank has all positions, because no entry splits it; give a "
      "module of encoder weft.embedding/1 or weft.embedding_vocab/1 or weft.sequence_split/1");
  EXPECT_NO_THROW(build_plan(model, policy({}), {}));
  const Policy whole = policy({{"encoder.split", "weft.sequence_split/1"}});
  EXPECT_TRUE(unsupported(build_plan(model, whole, kRing)).empty());
  // An embedding that both stacks share.
  add(model, "shared", "Embedding", 0);
  EXPECT_NO_THROW(build_plan(model, policy({{"shared", "weft.embedding/1"}}), kRing));
}

// Two sequences, a norm at the end of each and a classifier beside them.
TEST(Sequences, EndsEverySequenceWhereItEnds) {
  ModelDescription model;
  for (const auto& [stack, order] : {std::pair("encoder", 1u), std::pair("decoder", 4u)}) {
    add(model, fmt::format("{}.begin", stack), "Identity", 0);
    add(model, fmt::format("{}.first", stack), "RMSNorm", order);
    add(model, fmt::format("{}.end", stack), "Identity", order + 1);
    add(model, fmt::format("{}.last", stack), "RMSNorm", order + 2);
  }
  add(model, "classifier", "Linear", 7);
  const Policy policy = policy_of({{"*.begin", "weft.sequence_begin/1"}, {"*.end", "weft.sequence_end/1"}});
  EXPECT_EQ(build_plan(model, policy, kSplit).on_split_sequence,
            (std::vector<std::string>{"decoder.first", "encoder.first"}));
  // A head reads the last sequence, so that one must end.
  const Policy without_end = policy_of({{"*.begin", "weft.sequence_begin/1"},
                                        {"classifier", "weft.linear/1"},
                                        {"encoder.end", "weft.sequence_end/1"}});
  EXPECT_TELLS(refusal(model, without_end, kSplit),
               "decoder begins a split sequence, but no entry ends it, so a head would see this rank's "
               "positions only; give decoder.end weft.sequence_end/1");
  EXPECT_NO_THROW(build_plan(model, without_end, {}));
  model.nodes.back().order = 5;
  EXPECT_TELLS(refusal(model, policy, kSplit), "classifier (Linear) has no entry");
}

}  // namespace
}  // namespace weft::plan::test

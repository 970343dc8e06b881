// The sequences of a model: plans that split one twice, never or before its embeddings, or do not end it.
#include "invented_policy.hpp"
#include "plan/json_policy.hpp"

namespace weft::plan::test {
namespace {

// Every rank computes the embeddings of all positions.
TEST(Sequences, LeavesWhatIsBeforeTheSplitOfASequence) {
  ModelDescription model;
  const auto add = [&](const std::string& path, const std::string& kind, size_t order) {
    const bool has_weight = kind != "Identity" && kind != "Dropout";
    model.nodes.push_back(
        node(path, kind,
             has_weight ? std::vector<ParameterShape>{{"weight", {4}}} : std::vector<ParameterShape>()));
    model.nodes.back().order = order;
  };
  add("patches", "PatchConvolution", 0);
  add("first", "LayerNorm", 0);
  add("drop", "Dropout", 0);
  add("begin", "Identity", 1);
  add("second", "LayerNorm", 2);
  add("attention", "Attention", 2);
  add("end", "Identity", 3);
  add("last", "LayerNorm", 4);
  const auto policy = [](const std::string& more) {
    return parse_json_policy(R"({"name": "p", "entries": [
      {"on": "attention", "operation": "weft.attention/1"},
      {"on": "end", "operation": "weft.sequence_end/1"})" +
                                 more + "]}",
                             "p.json");
  };
  const Policy with = policy(R"(, {"on": "begin", "operation": "weft.sequence_split/1"})"),
               without = policy("");
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
  const auto add = [&](const std::string& path, const std::string& kind, size_t order,
                       const std::vector<ParameterShape>& params) {
    model.nodes.push_back(node(path, kind, params));
    model.nodes.back().order = order;
  };
  add("words", "Embedding", 0, {{"weight", {8, 4}}});
  add("begin", "Identity", 1, {});
  add("attention", "Attention", 2, {});
  add("end", "Identity", 3, {});
  const auto policy = [](const std::string& more) {
    return parse_json_policy(R"({"name": "p", "entries": [
      {"on": "begin", "operation": "weft.sequence_split/1"},
      {"on": "attention", "operation": "weft.attention/1"},
      {"on": "end", "operation": "weft.sequence_end/1"})" +
                                 more + "]}",
                             "p.json");
  };
  for (const ParallelSizes& sizes : {kSplit, kRing}) {
    EXPECT_NO_THROW(build_plan(model, policy(""), sizes));
    for (const char* operation : {"weft.embedding/1", "weft.embedding_vocab/1"})
      EXPECT_TELLS(
          refusal(model, policy(fmt::format(R"(, {{"on": "words", "operation": "{}"}})", operation)), sizes),
          fmt::format("words (\"words\" -> {}) splits the sequence, which begin (\"begin\" -> "
                      "weft.sequence_split/1) splits again after it; leave one of the entries out",
                      operation));
  }
}

// What the second module gets is this rank's positions already.
TEST(Sequences, RefusesTwoModulesThatSplitTheSame) {
  ModelDescription model;
  for (const auto& [path, kind] : {std::pair("patches.begin", "Identity"), std::pair("begin", "Identity"),
                                   std::pair("attention", "Attention"), std::pair("end", "Identity")}) {
    model.nodes.push_back(node(path, kind));
    model.nodes.back().order = model.nodes.size();
  }
  const auto policy = [](const std::vector<std::string>& patterns) {
    std::string splits;
    for (const std::string& pattern : patterns)
      splits += fmt::format(R"({{"on": "{}", "operation": "weft.sequence_split/1"}},)", pattern);
    return parse_json_policy(fmt::format(R"({{"name": "p", "entries": [{}
      {{"on": "attention", "operation": "weft.attention/1"}},
      {{"on": "end", "operation": "weft.sequence_end/1"}}]}})",
                                         splits),
                             "p.json");
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
    for (const char* name : {"begin", "split", "end"}) {
      model.nodes.push_back(node(fmt::format("{}.{}", stack, name), "Identity"));
      model.nodes.back().order = model.nodes.size();
    }
  const Policy policy = parse_json_policy(R"({"name": "p", "entries": [
    {"on": "*.begin", "operation": "weft.sequence_begin/1"},
    {"on": "*.split", "operation": "weft.sequence_split/1"},
    {"on": "*.end", "operation": "weft.sequence_end/1"}]})",
                                          "p.json");
  for (const ParallelSizes& sizes : {kSplit, kRing}) EXPECT_NO_THROW(build_plan(model, policy, sizes));
}

// An encoder with a sequence of its own below a decoder whose layers belong to the model: the sequence that
// the head reads is the decoder's.
TEST(Sequences, AcceptsANestedEncoderOfADecoderAtTheRoot) {
  ModelDescription model;
  for (const auto& [path, kind, order] :
       {std::tuple("decoder_end", "Identity", 5u), std::tuple("decoder_norm", "RMSNorm", 4u),
        std::tuple("encoder.begin", "Identity", 0u), std::tuple("encoder.norm", "RMSNorm", 1u)}) {
    model.nodes.push_back(node(path, kind));
    if (model.nodes.back().kind == "RMSNorm") model.nodes.back().params = {{"weight", {4}}};
    model.nodes.back().order = order;
  }
  const auto policy = [](const std::string& end) {
    return parse_json_policy(fmt::format(R"({{"name": "p", "entries": [
          {{"on": "encoder.begin", "operation": "weft.sequence_begin/1"}}{}]}})",
                                         end),
                             "p.json");
  };
  EXPECT_EQ(
      build_plan(model, policy(R"(, {"on": "decoder_end", "operation": "weft.sequence_end/1"})"), kSplit)
          .on_split_sequence,
      (std::vector<std::string>{"decoder_norm", "encoder.norm"}));
}

// An encoder of spectra beside a decoder of tokens.
TEST(Sequences, RefusesASequenceThatIsNeverSplitBesideOneThatIs) {
  ModelDescription model;
  const auto add = [&](const std::string& path, const std::string& kind, size_t order) {
    const std::vector<ParameterShape> weight = {{"weight", {12, 4}}};
    model.nodes.push_back(node(path, kind, kind == "Embedding" ? weight : std::vector<ParameterShape>()));
    model.nodes.back().order = order;
  };
  for (const char* name : {"encoder.begin", "encoder.split", "decoder.begin"}) add(name, "Identity", 0);
  add("decoder.tokens", "Embedding", 1);
  add("encoder.attention", "Attention", 2);
  add("encoder.end", "Identity", 3);
  add("decoder.attention", "Attention", 4);
  add("decoder.end", "Identity", 5);
  const auto policy = [](const std::string& more) {
    return parse_json_policy(R"({"name": "p", "entries": [
      {"on": "*.begin", "operation": "weft.sequence_begin/1"},
      {"on": "decoder.tokens", "operation": "weft.embedding/1"},
      {"on": "*.attention", "operation": "weft.attention/1"},
      {"on": "*.end", "operation": "weft.sequence_end/1"})" +
                                 more + "]}",
                             "p.json");
  };
  EXPECT_TELLS(
      refusal(model, policy(""), kRing),
      "encoder has a sequence of which every rank has all positions, because no entry splits it; give a "
      "module of encoder weft.embedding/1 or weft.embedding_vocab/1 or weft.sequence_split/1");
  EXPECT_NO_THROW(build_plan(model, policy(""), {}));
  const Policy whole = policy(R"(, {"on": "encoder.split", "operation": "weft.sequence_split/1"})");
  EXPECT_TRUE(unsupported(build_plan(model, whole, kRing)).empty());
  // An embedding that both stacks share.
  add("shared", "Embedding", 0);
  EXPECT_NO_THROW(build_plan(model, policy(R"(, {"on": "shared", "operation": "weft.embedding/1"})"), kRing));
}

// Two sequences, a norm at the end of each and a classifier beside them.
TEST(Sequences, EndsEverySequenceWhereItEnds) {
  ModelDescription model;
  const auto add = [&](const std::string& path, const std::string& kind, size_t order) {
    model.nodes.push_back(node(
        path, kind,
        kind == "Identity" ? std::vector<ParameterShape>() : std::vector<ParameterShape>{{"weight", {4}}}));
    model.nodes.back().order = order;
  };
  for (const auto& [stack, order] : {std::pair("encoder", 1u), std::pair("decoder", 4u)}) {
    add(fmt::format("{}.begin", stack), "Identity", 0);
    add(fmt::format("{}.first", stack), "RMSNorm", order);
    add(fmt::format("{}.end", stack), "Identity", order + 1);
    add(fmt::format("{}.last", stack), "RMSNorm", order + 2);
  }
  add("classifier", "Linear", 7);
  const Policy policy = parse_json_policy(R"({"name": "p", "entries": [
    {"on": "*.begin", "operation": "weft.sequence_begin/1"},
    {"on": "*.end", "operation": "weft.sequence_end/1"}]})",
                                          "p.json");
  EXPECT_EQ(build_plan(model, policy, kSplit).on_split_sequence,
            (std::vector<std::string>{"decoder.first", "encoder.first"}));
  // A head reads the last sequence, so that one must end.
  const Policy without_end = parse_json_policy(R"({"name": "p", "entries": [
    {"on": "*.begin", "operation": "weft.sequence_begin/1"},
    {"on": "classifier", "operation": "weft.linear/1"},
    {"on": "encoder.end", "operation": "weft.sequence_end/1"}]})",
                                               "p.json");
  EXPECT_TELLS(refusal(model, without_end, kSplit),
               "decoder begins a split sequence, but no entry ends it, so a head would see this rank's "
               "positions only; give decoder.end weft.sequence_end/1");
  EXPECT_NO_THROW(build_plan(model, without_end, {}));
  model.nodes.back().order = 5;
  EXPECT_TELLS(refusal(model, policy, kSplit), "classifier (Linear) has no entry");
}

}  // namespace
}  // namespace weft::plan::test

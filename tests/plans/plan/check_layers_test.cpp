// Plans whose entries contradict the model: each mistake must be refused with the module and the entry.
#include <nlohmann/json.hpp>

#include "invented_policy.hpp"
#include "operations/registry.hpp"
#include "plan/json_policy.hpp"

namespace weft::plan::test {
namespace {

using nlohmann::json;

// Returns a correct policy of GPT-2, by the pattern of each entry.
std::map<std::string, json> correct() {
  const auto on = [](const char* pattern, const char* operation) {
    return json{{"on", pattern}, {"operation", operation}};
  };
  std::map<std::string, json> entries;
  for (const auto& [pattern, operation] :
       {std::pair("wte", "weft.embedding_vocab/1"), std::pair("wpe", "weft.embedding/1"),
        std::pair("h.*.attn.c_attn", "weft.linear_column/1"),
        std::pair("h.*.attn.c_proj", "weft.linear_row/1"), std::pair("h.*.mlp.c_fc", "weft.linear_column/1"),
        std::pair("h.*.mlp.c_proj", "weft.linear_row/1"), std::pair("h.*.attn", "weft.attention/1"),
        std::pair("stream_end", "weft.sequence_end/1"), std::pair("lm_head", "weft.linear_vocab/1")})
    entries[pattern] = on(pattern, operation);
  for (const char* linear : {"h.*.attn.c_attn", "h.*.attn.c_proj", "h.*.mlp.c_fc", "h.*.mlp.c_proj"})
    entries[linear]["layout"] = "in_out";
  entries["h.*.attn.c_attn"]["fused"] = 3;
  entries["num_heads"] = {{"divide", "h.*.attn"}, {"attribute", "num_heads"}, {"by", "tensor_size"}};
  return entries;
}

std::map<std::string, json> without(const std::vector<std::string>& left_out) {
  std::map<std::string, json> entries = correct();
  for (const std::string& pattern : left_out) EXPECT_EQ(entries.erase(pattern), 1u);
  return entries;
}

Plan plan_of(const std::map<std::string, json>& entries, const ParallelSizes& sizes) {
  json all = json::array();
  for (const auto& [pattern, entry] : entries) all.push_back(entry);
  return build_plan(Gpt2{}.describe(),
                    parse_json_policy(json{{"name", "p"}, {"entries", all}}.dump(), "p.json"), sizes);
}

std::string refusal_of_entries(const std::map<std::string, json>& entries, const ParallelSizes& sizes) {
  return refusal_of([&] { plan_of(entries, sizes); });
}

TEST(CheckLayers, AcceptsACorrectPolicy) {
  for (const ParallelSizes& sizes : {ParallelSizes{}, kTwoRanks, kSplit, kRing})
    EXPECT_NO_THROW(plan_of(correct(), sizes));
}

TEST(CheckLayers, RefusesAnInputWhoseGradientsNobodySumsOrTwoDo) {
  auto entries = correct();
  entries["h.*.mlp.c_fc"]["input"] = "entered";
  EXPECT_TELLS(
      refusal_of_entries(entries, kTwoRanks),
      "h.{0..1}.mlp.c_fc (\"h.*.mlp.c_fc\" -> weft.linear_column/1) has input = entered, but no entry "
      "is weft.parallel_input/1");
  entries["stream_end"] = {{"on", "stream_end"}, {"operation", "weft.parallel_input/1"}};
  EXPECT_NO_THROW(plan_of(entries, kTwoRanks));
  entries["h.*.mlp.c_fc"].erase("input");
  EXPECT_TELLS(
      refusal_of_entries(entries, kTwoRanks),
      "stream_end (\"stream_end\" -> weft.parallel_input/1) sums the gradients of what it gives, but no "
      "column-parallel layer has input = entered");
  EXPECT_NO_THROW(plan_of(entries, {}));
}

TEST(CheckLayers, RefusesAFusedLayerThatIsCutAsOne) {
  auto entries = correct();
  entries["h.*.attn.c_attn"].erase("fused");
  const std::string message = refusal_of_entries(entries, kTwoRanks);
  EXPECT_TELLS(
      message,
      "h.{0..1}.attn.c_attn (\"h.*.attn.c_attn\" -> weft.linear_column/1) gives 36 output features, but "
      "c_proj of the same module reads 12");
  EXPECT_TELLS(message, "give it fused = 3");
  plan_of(entries, {});
  // The features of a head may lie together instead.
  entries["h.*.attn.c_attn"]["heads"] = 4;
  plan_of(entries, kTwoRanks);
}

TEST(CheckLayers, RefusesTheBeginningOrTheEndOfARegionAlone) {
  EXPECT_TELLS(refusal_of_entries(without({"h.*.mlp.c_proj"}), kTwoRanks),
               "h.{0..1}.mlp.c_proj has no entry, but reads 48 features, of which c_fc (\"h.*.mlp.c_fc\" -> "
               "weft.linear_column/1) gives each rank a part; give it weft.linear_row/1, or weft.linear/1");
  EXPECT_TELLS(refusal_of_entries(without({"h.*.attn.c_proj"}), kTwoRanks),
               "h.{0..1}.attn.c_proj has no entry");
  EXPECT_TELLS(
      refusal_of_entries(without({"h.*.mlp.c_fc"}), kTwoRanks),
      "h.{0..1}.mlp.c_fc has no entry, but gives the features of which c_proj (\"h.*.mlp.c_proj\" -> "
      "weft.linear_row/1) reads a part on each rank; give it weft.linear_column/1");
  EXPECT_TELLS(refusal_of_entries(without({"h.*.attn.c_attn"}), kTwoRanks),
               "h.{0..1}.attn.c_attn has no entry");
  plan_of(without({"h.*.mlp.c_fc", "h.*.mlp.c_proj"}), kTwoRanks);
  plan_of(without({"h.*.mlp.c_proj"}), {});
}

// A block whose layers before and after attention, and before and after the activation, have parents of their
// own.
TEST(CheckLayers, RefusesOneEndOfARegionBesideItsParent) {
  ModelDescription model;
  for (const char* layer : {"0", "1"})
    for (const auto& [path, out, in] :
         {std::tuple("attention.self.query", 4, 4), std::tuple("attention.self.key", 4, 4),
          std::tuple("attention.output.dense", 4, 4), std::tuple("intermediate.dense", 8, 4),
          std::tuple("output.dense", 4, 8), std::tuple("router.dense", 3, 4)})
      model.nodes.push_back(node(fmt::format("layer.{}.{}", layer, path), "Linear", {{"weight", {out, in}}}));
  const auto policy = [](const std::vector<std::pair<const char*, const char*>>& entries) {
    json all = json::array();
    for (const auto& [pattern, operation] : entries)
      all.push_back({{"on", fmt::format("layer.*.{}", pattern)}, {"operation", operation}});
    return parse_json_policy(json{{"name", "p"}, {"entries", all}}.dump(), "p.json");
  };
  constexpr const char *kColumn = "weft.linear_column/1", *kRow = "weft.linear_row/1";
  EXPECT_NO_THROW(build_plan(model,
                             policy({{"attention.self.*", kColumn},
                                     {"attention.output.dense", kRow},
                                     {"intermediate.dense", kColumn},
                                     {"output.dense", kRow}}),
                             kTwoRanks));
  EXPECT_NO_THROW(
      build_plan(model, policy({{"intermediate.dense", kColumn}, {"output.dense", kRow}}), kTwoRanks));
  EXPECT_TELLS(refusal(model, policy({{"intermediate.dense", kColumn}}), kTwoRanks),
               "layer.{0..1}.output.dense has no entry, but reads 8 features, of which dense "
               "(\"layer.*.intermediate.dense\" -> weft.linear_column/1) gives each rank a part; give it "
               "weft.linear_row/1");
  EXPECT_TELLS(refusal(model, policy({{"output.dense", kRow}}), kTwoRanks),
               "layer.{0..1}.intermediate.dense has no entry, but gives the features of which dense "
               "(\"layer.*.output.dense\" -> weft.linear_row/1) reads a part on each rank");
  EXPECT_TELLS(refusal(model, policy({{"attention.self.*", kColumn}}), kTwoRanks),
               "layer.{0..1}.attention.output.dense has no entry, but reads 4 features");
  EXPECT_TELLS(refusal(model, policy({{"attention.output.dense", kRow}}), kTwoRanks),
               "layer.{0..1}.attention.self.key, layer.{0..1}.attention.self.query has no entry");
  EXPECT_NO_THROW(build_plan(model, policy({{"intermediate.dense", kColumn}}), {}));
}

// The layers after the region are right, with entries and without.
TEST(CheckLayers, RefusesAColumnThatReadsAColumn) {
  const auto refuses = [](const char* layer, const std::vector<const char*>& later,
                          const std::string& wanted) {
    auto entries = correct();
    entries[layer]["operation"] = "weft.linear_column/1";
    EXPECT_TELLS(refusal_of_entries(entries, kTwoRanks), wanted);
    EXPECT_NO_THROW(plan_of(entries, {}));
    for (const char* other : later) EXPECT_EQ(entries.erase(other), 1u);
    const std::string alone = refusal_of_entries(entries, kTwoRanks);
    EXPECT_TELLS(alone, wanted);
    EXPECT_EQ(alone.find("has no entry"), alone.npos) << alone;
  };
  refuses(
      "h.*.attn.c_proj", {"h.*.mlp.c_fc", "h.*.mlp.c_proj"},
      "h.{0..1}.attn.c_proj (\"h.*.attn.c_proj\" -> weft.linear_column/1) reads 12 features, of which c_attn "
      "(\"h.*.attn.c_attn\" -> weft.linear_column/1) gives each rank a part; give it weft.linear_row/1");
  refuses(
      "h.*.mlp.c_proj", {"h.*.attn.c_attn", "h.*.attn.c_proj", "num_heads"},
      "h.{0..1}.mlp has the column-parallel layers c_fc (\"h.*.mlp.c_fc\" -> weft.linear_column/1), c_proj "
      "(\"h.*.mlp.c_proj\" -> weft.linear_column/1) and no row-parallel one");
}

// Which of four square layers reads the heads is not in the description of a model.
TEST(CheckLayers, RefusesAttentionWhoseLayersAreAllColumns) {
  ModelDescription model;
  model.nodes.push_back(node("attention", "Attention"));
  for (const char* layer : {"key", "out", "query", "value"})
    model.nodes.push_back(node(fmt::format("attention.{}", layer), "Linear", {{"weight", {4, 4}}}));
  const auto policy = [](const char* pattern) {
    return parse_json_policy(
        json{{"name", "p"}, {"entries", {{{"on", pattern}, {"operation", "weft.linear_column/1"}}}}}.dump(),
        "p.json");
  };
  EXPECT_TELLS(
      refusal(model, policy("attention.*"), kTwoRanks),
      "attention has the column-parallel layers key (\"attention.*\" -> weft.linear_column/1), out ");
}

// Sequence modes that give ranks some of the heads divide them.
TEST(CheckLayers, RefusesHeadsThatAreDividedByTheRanksOfASequence) {
  auto entries = correct();
  entries["num_heads"]["by"] = 2;
  for (const ParallelSizes& sizes : {kRing, ParallelSizes{.sequence = 2, .sequence_mode = "all_to_all"}})
    EXPECT_TELLS(refusal_of_entries(entries, sizes),
                 "h.{0..1}.attn has num_heads = 2 on each rank (divide \"h.*.attn\" by 2), but gets the "
                 "features of 4 heads");
  EXPECT_NO_THROW(plan_of(entries, kTwoRanks));
}

TEST(CheckLayers, RefusesHeadsThatDoNotFollowTheProjections) {
  EXPECT_TELLS(refusal_of_entries(without({"num_heads"}), kTwoRanks),
               "h.{0..1}.attn has num_heads = 4 on each rank, but c_attn (\"h.*.attn.c_attn\" -> "
               "weft.linear_column/1) gives it the features of 2 heads; divide \"num_heads\" by 2");
  auto entries = correct();
  entries["num_heads"]["by"] = 4;
  EXPECT_TELLS(refusal_of_entries(entries, kTwoRanks), "h.{0..1}.attn has num_heads = 1 on each rank");
  EXPECT_TELLS(
      refusal_of_entries(without({"h.*.attn.c_attn", "h.*.attn.c_proj"}), kTwoRanks),
      "h.{0..1}.attn has its num_heads = 4 divided, but none of its linear layers is column-parallel");
  plan_of(without({"num_heads"}), {});
}

// Those of heads: tests/policies/qwen3 and the tests of broken plans.
TEST(CheckLayers, RefusesSplitNormsOfTheResidualStream) {
  auto entries = correct();
  entries["ln_f"] = {{"on", "ln_f"}, {"operation", "weft.layer_norm/1"}, {"split", true}};
  EXPECT_TELLS(refusal_of_entries(entries, kTwoRanks),
               "ln_f has split = true, but is no norm of heads (no column-parallel layer of the same "
               "attention computes its input)");
  plan_of(entries, {});
}

// A block without a module for its MLP, as in OPT: the norm of the residual stream stands beside the
// column-parallel layer that reads it. In attention the same norm is one of heads.
TEST(CheckLayers, RefusesSplitNormsBesideAColumnParallelLayerOutsideOfAttention) {
  const auto policy = parse_json_policy(R"({"name": "p", "entries": [
    {"on": "block.norm", "operation": "weft.layer_norm/1", "split": true},
    {"on": "block.fc1", "operation": "weft.linear_column/1"},
    {"on": "block.fc2", "operation": "weft.linear_row/1"}]})",
                                        "p.json");
  for (const bool affine : {true, false}) {
    ModelDescription model;
    model.nodes = {node("block", "Block"), node("block.norm", "LayerNorm"),
                   node("block.fc1", "Linear", {{"weight", {16, 4}}}),
                   node("block.fc2", "Linear", {{"weight", {4, 16}}})};
    if (affine) model.nodes[1].params = {{"weight", {4}}, {"bias", {4}}};
    EXPECT_TELLS(refusal(model, policy, kTwoRanks), "block.norm has split = true, but is no norm of heads");
    EXPECT_NO_THROW(build_plan(model, policy, {}));
    model.nodes[0].kind = "Attention";
    EXPECT_NO_THROW(build_plan(model, policy, kTwoRanks));
  }
}

TEST(CheckLayers, RefusesParametersOfSplitSequencesWithoutAnEntry) {
  EXPECT_TELLS(refusal_of_entries(without({"wpe"}), kSplit),
               "wpe has no entry, so it looks up all positions, but sequences are split");
  EXPECT_TELLS(refusal_of_entries(without({"wpe"}), kRing), "wpe has no entry");
  EXPECT_TELLS(
      refusal_of_entries(without({"h.*.mlp.c_fc", "h.*.mlp.c_proj"}), kSplit),
      "h.{0..1}.mlp.c_fc, h.{0..1}.mlp.c_proj (Conv1D) has no entry, but sees this rank's positions only");
  EXPECT_TELLS(refusal_of_entries(without({"h.*.attn"}), kRing),
               "h.{0..1}.attn attends to this rank's positions only, because sequences are split");
  // After the end of the sequence every rank has all positions.
  plan_of(without({"lm_head", "wte"}), kTwoRanks);
  auto replicated = without({"lm_head"});
  replicated["wte"]["operation"] = "weft.embedding/1";
  plan_of(replicated, kSplit);
}

TEST(CheckLayers, FindsTheNormsAndDropoutsOfSplitSequences) {
  EXPECT_EQ(
      plan_of(correct(), kSplit).on_split_sequence,
      (std::vector<std::string>{"drop", "h.0.attn.resid_dropout", "h.0.ln_1", "h.0.ln_2", "h.0.mlp.dropout",
                                "h.1.attn.resid_dropout", "h.1.ln_1", "h.1.ln_2", "h.1.mlp.dropout"}));
  EXPECT_TRUE(plan_of(correct(), kTwoRanks).on_split_sequence.empty());
  EXPECT_TRUE(plan_of(correct(), kRing).on_split_sequence.empty());
  EXPECT_TELLS(explain(plan_of(correct(), kSplit)), "split       9: drop, h.{0..1}.attn.resid_dropout");
}

// Attention draws the masks of its weights itself.
TEST(CheckLayers, RefusesAnEntryForTheDropoutOfAttentionWeights) {
  auto entries = correct();
  entries["h.*.attn.attn_dropout"] = {
      {"on", "h.*.attn.attn_dropout"}, {"operation", "weft.dropout/1"}, {"split", true}};
  for (const ParallelSizes& sizes : {ParallelSizes{}, kTwoRanks, kSplit})
    EXPECT_TELLS(
        refusal_of_entries(entries, sizes),
        "h.{0..1}.attn.attn_dropout is of kind AttentionDropout, but weft.dropout/1 fits Dropout only");
}

// The entry of an adapter is no entry of the layer to which it adds parameters.
TEST(CheckLayers, RefusesALayerWithAnAdapterLikeOneWithout) {
  static const Operation kFactor = {.id = "test.factor/1",
                                    .documentation = "adds a factor",
                                    .kinds = {"Conv1D"},
                                    .attributes = {},
                                    .add = [](nn::Layer&, const Attributes&) {}};
  set_operation_source([](std::string_view id) { return id == kFactor.id ? &kFactor : nullptr; });
  ModelDescription model = Gpt2{}.describe();
  for (Node& node : model.nodes)
    if (node.kind == "Conv1D") node.added = {kFactor.id, {}, {{"factor.weight", {1}}}};
  const auto policy = [](const std::map<std::string, json>& entries) {
    json all = json::array();
    for (const auto& [pattern, entry] : entries) all.push_back(entry);
    return parse_json_policy(json{{"name", "p"}, {"entries", all}}.dump(), "p.json");
  };
  EXPECT_NO_THROW(build_plan(model, policy(correct()), kTwoRanks));
  EXPECT_TELLS(refusal(model, policy(without({"h.*.mlp.c_proj"})), kTwoRanks),
               "h.{0..1}.mlp.c_proj has no entry, but reads 48 features");
  EXPECT_TELLS(refusal(model, policy(without({"h.*.mlp.c_fc"})), kTwoRanks),
               "h.{0..1}.mlp.c_fc has no entry, but gives the features");
  set_operation_source({});
}

// One layer of attention with a position bias that is learned, as in T5, or not, as in Bloom.
TEST(CheckLayers, RefusesAPositionBiasWithoutAnEntry) {
  const std::vector<ParameterShape> learned = {{"weight", {8, 2}}};
  for (const auto& [bias, operation] :
       {std::pair(node("attn.bias", "RelativeAttentionBias", learned), "weft.attention_bias/1"),
        std::pair(node("attn.bias", "Alibi"), "weft.alibi/1")}) {
    ModelDescription model;
    model.nodes = {node("embed", "Embedding", {{"weight", {8, 4}}}),
                   node("attn", "Attention"),
                   bias,
                   node("attn.q", "Linear", {{"weight", {4, 4}}}),
                   node("attn.o", "Linear", {{"weight", {4, 4}}}),
                   node("end", "Identity")};
    model.nodes[1].attributes = {{"num_heads", 2}};
    const auto policy = [](const std::string& more) {
      return parse_json_policy(R"({"name": "p", "entries": [
        {"on": "embed", "operation": "weft.embedding/1"},
        {"on": "attn", "operation": "weft.attention/1"},
        {"on": "attn.q", "operation": "weft.linear_column/1"},
        {"on": "attn.o", "operation": "weft.linear_row/1"},
        {"divide": "attn", "attribute": "num_heads", "by": "tensor_size"},
        {"on": "end", "operation": "weft.sequence_end/1"})" +
                                   more + "]}",
                               "p.json");
    };
    const Policy without = policy(""),
                 with = policy(fmt::format(R"(, {{"on": "attn.bias", "operation": "{}"}})", operation));
    constexpr ParallelSizes kAllToAll = {.sequence = 2, .sequence_mode = "all_to_all"};
    for (const ParallelSizes& sizes : {kRing, kAllToAll})
      EXPECT_TELLS(
          refusal(model, without, sizes),
          fmt::format(
              "attn.bias has no entry, so it computes the bias of this rank's positions only, but sequences "
              "are split; give it {}",
              operation));
    for (const ParallelSizes& sizes : {kTwoRanks, kSplit})
      EXPECT_TELLS(refusal(model, without, sizes),
                   fmt::format("attn.bias has no entry, so it computes the bias of all heads, of which attn "
                               "has a part on each "
                               "rank; give it {}",
                               operation));
    EXPECT_NO_THROW(build_plan(model, without, {}));
    for (const ParallelSizes& sizes : {kRing, kAllToAll, kTwoRanks, kSplit})
      EXPECT_NO_THROW(build_plan(model, with, sizes));
  }
}

// Attention that every rank computes as a whole needs the bias of all of its heads.
TEST(CheckLayers, RefusesAPositionBiasOfPartOfTheHeadsOfWholeAttention) {
  for (const auto& [bias, operation] :
       {std::pair(node("attn.bias", "RelativeAttentionBias", {{"weight", {8, 2}}}), "weft.attention_bias/1"),
        std::pair(node("attn.bias", "Alibi"), "weft.alibi/1")}) {
    ModelDescription model;
    model.nodes = {node("attn", "Attention"), bias, node("attn.q", "Linear", {{"weight", {4, 4}}}),
                   node("attn.o", "Linear", {{"weight", {4, 4}}})};
    model.nodes[0].attributes = {{"num_heads", 2}};
    const auto policy = [&, id = operation](const std::string& more) {
      return parse_json_policy(
          fmt::format(R"({{"name": "p", "entries": [{{"on": "attn.bias", "operation": "{}"}}{}]}})", id,
                      more),
          "p.json");
    };
    EXPECT_TELLS(refusal(model, policy(""), kTwoRanks),
                 fmt::format("attn.bias (\"attn.bias\" -> {}) computes the bias of this rank's part of the "
                             "heads, but attn has all of its heads on each rank; divide the heads of attn "
                             "(DIVIDE in C), or leave the entry out",
                             operation));
    EXPECT_NO_THROW(build_plan(model, policy(""), {}));
    EXPECT_NO_THROW(build_plan(model, policy(R"(, {"on": "attn.q", "operation": "weft.linear_column/1"},
                                           {"on": "attn.o", "operation": "weft.linear_row/1"},
                                           {"divide": "attn", "attribute": "num_heads", "by": 2})"),
                               kTwoRanks));
  }
}

}  // namespace
}  // namespace weft::plan::test

// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "llama_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kSmall =
    R"({"vocab_size": 101, "hidden_size": 24, "intermediate_size": 32, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 6, "num_hidden_layers": 2, "num_labels": 3})";

Policy policy() {
  return compiled_policy("llama");
}

ModelDescription describe(const Config& config, std::string_view architecture = "LlamaForCausalLM") {
  static std::vector<std::shared_ptr<nn::Model>> models;  // descriptions point into them
  models.push_back(llama::make_model(config, architecture, at::kFloat));
  return describe_model(*models.back());
}

Config small() {
  return Config::parse(kSmall, "test");
}

const PlannedParameter& cut(const Plan& plan, std::string_view parameter) {
  const size_t dot = parameter.rfind('.');
  const auto find = [&](const PlannedNode& node) -> const PlannedParameter* {
    if (node.path != parameter.substr(0, dot)) return nullptr;
    for (const PlannedParameter& cut : node.params)
      if (cut.name == parameter.substr(dot + 1)) return &cut;
    return nullptr;
  };
  for (const PlannedNode& node : plan.replicated)
    if (const PlannedParameter* found = find(node)) return *found;
  for (const Replacement& entry : plan.replacements)
    for (const PlannedNode& node : entry.nodes)
      if (const PlannedParameter* found = find(node)) return *found;
  throw Error(WEFT_NOT_FOUND, fmt::format("the plan has no {}", parameter));
}

using Shape = std::vector<int64_t>;

TEST(LlamaPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  EXPECT_TELLS(
      refusal(describe(small()), policy(), {.tensor = 3}),
      "\"num_attention_heads\" is 8, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
}

TEST(LlamaPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : {"LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification"}) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan = build_plan(describe(small().with_json("attention_bias", "true"), architecture),
                                   policy(), {.tensor = static_cast<uint32_t>(ranks)});
      const auto local = [&](const char* name) { return cut(plan, name).local(0); };
      EXPECT_EQ(local("embed_tokens.weight"), (Shape{(101 + ranks - 1) / ranks, 24})) << architecture;
      EXPECT_EQ(local("layers.1.self_attn.q_proj.weight"), (Shape{48 / ranks, 24}));
      EXPECT_EQ(local("layers.1.self_attn.q_proj.bias"), (Shape{48 / ranks}));
      EXPECT_EQ(local("layers.0.self_attn.k_proj.weight"), (Shape{24 / ranks, 24}));
      EXPECT_EQ(local("layers.0.self_attn.v_proj.bias"), (Shape{24 / ranks}));
      EXPECT_EQ(local("layers.0.self_attn.o_proj.weight"), (Shape{24, 48 / ranks}));
      EXPECT_EQ(local("layers.0.self_attn.o_proj.bias"), (Shape{24}));
      EXPECT_EQ(local("layers.1.mlp.gate_proj.weight"), (Shape{32 / ranks, 24}));
      EXPECT_EQ(local("layers.1.mlp.up_proj.weight"), (Shape{32 / ranks, 24}));
      EXPECT_EQ(local("layers.1.mlp.down_proj.weight"), (Shape{24, 32 / ranks}));
      EXPECT_EQ(local("layers.1.post_attention_layernorm.weight"), (Shape{24}));
      EXPECT_EQ(local("norm.weight"), (Shape{24}));
      ASSERT_EQ(plan.divisions.size(), 2u);
      EXPECT_EQ(plan.divisions[0].nodes.at(1).after, 8 / ranks);
      EXPECT_EQ(plan.divisions[1].nodes.at(1).after, 4 / ranks);
    }
  }
}

// 2 heads of keys on 4 ranks: ranks 0 and 1 hold the first, 2 and 3 the second, each with its own queries.
TEST(LlamaPolicy, RepeatsHeadsOfKeysThatAreFewerThanRanks) {
  const Plan plan =
      build_plan(describe(small().with_json("num_key_value_heads", "2")), policy(), {.tensor = 4});
  const PlannedParameter& keys = cut(plan, "layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(keys.local(3), (Shape{6, 24}));
  EXPECT_EQ(keys.cuts[0], keys.cuts[1]);
  EXPECT_NE(keys.cuts[1], keys.cuts[2]);
  EXPECT_EQ(keys.cuts[2], keys.cuts[3]);
  EXPECT_EQ(cut(plan, "layers.0.self_attn.q_proj.weight").local(3), (Shape{12, 24}));
  EXPECT_EQ(plan.divisions[0].nodes.at(0).after, 2);
  EXPECT_EQ(plan.divisions[1].nodes.at(0).after, 1);
}

TEST(LlamaPolicy, RefusesHeadsOfKeysThatNeitherDivideNorAreDivided) {
  EXPECT_TELLS(
      refusal(describe(small().with_json("num_attention_heads", "12").with_json("num_key_value_heads", "3")),
              policy(), {.tensor = 4}),
      "with 3 heads along dimension 0, which tensor_size 4 cannot share out; the nearest that can: 3 and 6");
}

TEST(LlamaPolicy, CutsATiedHeadAsTheEmbedding) {
  for (const bool tied : {true, false}) {
    const Plan plan = build_plan(describe(small().with_json("tie_word_embeddings", tied ? "true" : "false")),
                                 policy(), {.tensor = 2});
    EXPECT_EQ(plan.ties.size(), tied ? 1u : 0u);
    EXPECT_EQ(cut(plan, "lm_head.weight").cuts, cut(plan, "embed_tokens.weight").cuts);
    EXPECT_EQ(cut(plan, "lm_head.weight").local(1), (Shape{50, 24}));
  }
}

TEST(LlamaPolicy, KeepsTheSmallHeadWhole) {
  const Plan plan = build_plan(describe(small(), "LlamaForSequenceClassification"), policy(), {.tensor = 2});
  EXPECT_EQ(cut(plan, "score.weight").local(1), (Shape{3, 24}));
}

}  // namespace
}  // namespace weft::plan::test

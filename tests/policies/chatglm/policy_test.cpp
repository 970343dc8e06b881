// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "chatglm_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/local_shape.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kSmall =
    R"({"padded_vocab_size": 101, "hidden_size": 24, "ffn_hidden_size": 32, "num_attention_heads": 8,
        "multi_query_attention": true, "multi_query_group_num": 4, "kv_channels": 6, "num_layers": 2,
        "add_bias_linear": true})";
constexpr const char* kFused = "encoder.layers.1.self_attention.query_key_value.weight";

Policy policy() {
  return compiled_policy("chatglm");
}

ModelDescription describe(const Config& config,
                          std::string_view architecture = "ChatGLMForConditionalGeneration") {
  static std::vector<std::shared_ptr<nn::Model>> models;  // descriptions point into them
  models.push_back(chatglm::make_model(config, architecture, at::kFloat));
  return describe_model(*models.back());
}

Config small() {
  return Config::parse(kSmall, "test");
}

const PlannedParameter& cut(const Plan& plan, std::string_view parameter) {
  if (const PlannedParameter* found = find(plan, parameter)) return *found;
  throw Error(WEFT_NOT_FOUND, fmt::format("the plan has no {}", parameter));
}

// Returns the rows of a weight that a rank keeps.
std::vector<std::pair<int64_t, int64_t>> rows(const PlannedParameter& parameter, size_t rank) {
  std::vector<std::pair<int64_t, int64_t>> rows;
  for (const Run& run : parameter.cuts.at(rank).dims.at(0)) rows.push_back({run.begin, run.count});
  return rows;
}

using Shape = std::vector<int64_t>;
using Rows = std::vector<std::pair<int64_t, int64_t>>;

TEST(ChatGlmPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  EXPECT_TELLS(
      refusal(describe(small()), policy(), {.tensor = 3}),
      "\"num_attention_heads\" is 8, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
  EXPECT_TELLS(
      refusal(
          describe(small().with_json("num_attention_heads", "12").with_json("multi_query_group_num", "3")),
          policy(), {.tensor = 4}),
      "with 12 + 2 x 3 heads along dimension 0, which tensor_size 4 cannot share out; the nearest "
      "that can: 3 and 6");
}

TEST(ChatGlmPolicy, RefusesAnMlpThatDoesNotDivide) {
  EXPECT_TELLS(refusal(describe(small().with_json("ffn_hidden_size", "30")), policy(), {.tensor = 4}),
               "30 elements along dimension 0 in each of 2 parts, which tensor_size 4 cannot share out");
}

TEST(ChatGlmPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : {"ChatGLMModel", "ChatGLMForConditionalGeneration"}) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan =
          build_plan(describe(small(), architecture), policy(), {.tensor = static_cast<uint32_t>(ranks)});
      const auto local = [&](const char* name) { return cut(plan, name).local(0); };
      EXPECT_EQ(local("embedding.word_embeddings.weight"), (Shape{(101 + ranks - 1) / ranks, 24}));
      EXPECT_EQ(local(kFused), (Shape{(48 + 24 + 24) / ranks, 24}));
      EXPECT_EQ(local("encoder.layers.0.self_attention.query_key_value.bias"), (Shape{96 / ranks}));
      EXPECT_EQ(local("encoder.layers.0.self_attention.dense.weight"), (Shape{24, 48 / ranks}));
      EXPECT_EQ(local("encoder.layers.0.self_attention.dense.bias"), (Shape{24}));
      EXPECT_EQ(local("encoder.layers.1.mlp.dense_h_to_4h.weight"), (Shape{64 / ranks, 24}));
      EXPECT_EQ(local("encoder.layers.1.mlp.dense_h_to_4h.bias"), (Shape{64 / ranks}));
      EXPECT_EQ(local("encoder.layers.1.mlp.dense_4h_to_h.weight"), (Shape{24, 32 / ranks}));
      EXPECT_EQ(local("encoder.layers.1.post_attention_layernorm.weight"), (Shape{24}));
      EXPECT_EQ(local("encoder.final_layernorm.weight"), (Shape{24}));
      ASSERT_EQ(plan.divisions.size(), 2u);
      EXPECT_EQ(plan.divisions[0].nodes.at(1).after, 8 / ranks);
      EXPECT_EQ(plan.divisions[1].nodes.at(1).after, 4 / ranks);
    }
  }
}

// Queries, keys and values one after the other, 48, 24 and 24 rows; gate and up, 32 rows each.
TEST(ChatGlmPolicy, CutsEveryPartOfAFusedWeight) {
  const Plan plan = build_plan(describe(small()), policy(), {.tensor = 2});
  EXPECT_EQ(rows(cut(plan, kFused), 1), (Rows{{24, 24}, {60, 12}, {84, 12}}));
  EXPECT_EQ(rows(cut(plan, "encoder.layers.0.mlp.dense_h_to_4h.weight"), 1), (Rows{{16, 16}, {48, 16}}));
}

// Without groups a head has its query, key and value, 18 rows.
TEST(ChatGlmPolicy, CutsWholeHeadsWithoutGroups) {
  const Plan plan =
      build_plan(describe(small().with_json("multi_query_attention", "false")), policy(), {.tensor = 2});
  EXPECT_EQ(rows(cut(plan, kFused), 0), (Rows{{0, 72}}));
  EXPECT_EQ(rows(cut(plan, kFused), 1), (Rows{{72, 72}}));
  EXPECT_EQ(plan.divisions[1].nodes.at(0).after, 4);
}

// 2 groups on 4 ranks: ranks 0 and 1 hold the keys of the first, each with its own queries.
TEST(ChatGlmPolicy, RepeatsGroupsThatAreFewerThanRanks) {
  const Plan plan =
      build_plan(describe(small().with_json("multi_query_group_num", "2")), policy(), {.tensor = 4});
  EXPECT_EQ(rows(cut(plan, kFused), 0), (Rows{{0, 12}, {48, 6}, {60, 6}}));
  EXPECT_EQ(rows(cut(plan, kFused), 1), (Rows{{12, 12}, {48, 6}, {60, 6}}));
  EXPECT_EQ(plan.divisions[0].nodes.at(0).after, 2);
  EXPECT_EQ(plan.divisions[1].nodes.at(0).after, 1);
}

TEST(ChatGlmPolicy, TakesEitherNormAndNoLastOne) {
  for (const char* rmsnorm : {"true", "false"})
    for (const char* last : {"true", "false"}) {
      const Config config = small().with_json("rmsnorm", rmsnorm).with_json("post_layer_norm", last);
      EXPECT_NO_THROW(build_plan(describe(config), policy(), {.tensor = 2})) << rmsnorm << last;
    }
}

}  // namespace
}  // namespace weft::plan::test

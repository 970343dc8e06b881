// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "bloom_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/local_shape.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kSmall =
    R"({"vocab_size": 101, "hidden_size": 24, "n_head": 12, "n_layer": 2, "num_labels": 3})";

constexpr const char* kClasses[] = {"BloomModel", "BloomForCausalLM", "BloomForSequenceClassification",
                                    "BloomForTokenClassification", "BloomForQuestionAnswering"};

Policy policy() {
  return compiled_policy("bloom");
}

ModelDescription describe(const Config& config, std::string_view architecture = "BloomForCausalLM") {
  static std::vector<std::shared_ptr<nn::Model>> models;  // descriptions point into them
  models.push_back(bloom::make_model(config, architecture, at::kFloat));
  return describe_model(*models.back());
}

Config small() {
  return Config::parse(kSmall, "test");
}

using Shape = std::vector<int64_t>;

TEST(BloomPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  const char* nearest = "is 12, not a multiple of 5; the nearest sizes that divide it: 4 and 6";
  EXPECT_TELLS(refusal(describe(small()), policy(), {.tensor = 5}), fmt::format("\"n_head\" {}", nearest));
  const Config old = Config::parse(R"({"hidden_size": 24, "num_attention_heads": 12})", "test");
  EXPECT_TELLS(refusal(describe(old), policy(), {.tensor = 5}),
               fmt::format("\"num_attention_heads\" {}", nearest));
}

TEST(BloomPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : kClasses) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan =
          build_plan(describe(small(), architecture), policy(), {.tensor = static_cast<uint32_t>(ranks)});
      const auto cut = [&](const char* name) { return local(plan, name); };
      EXPECT_EQ(cut("word_embeddings.weight"), (Shape{(101 + ranks - 1) / ranks, 24})) << architecture;
      EXPECT_EQ(cut("word_embeddings_layernorm.weight"), (Shape{24}));
      EXPECT_EQ(cut("h.1.self_attention.query_key_value.weight"), (Shape{72 / ranks, 24}));
      EXPECT_EQ(cut("h.1.self_attention.query_key_value.bias"), (Shape{72 / ranks}));
      EXPECT_EQ(cut("h.0.self_attention.dense.weight"), (Shape{24, 24 / ranks}));
      EXPECT_EQ(cut("h.0.self_attention.dense.bias"), (Shape{24}));
      EXPECT_EQ(cut("h.1.mlp.dense_h_to_4h.weight"), (Shape{96 / ranks, 24}));
      EXPECT_EQ(cut("h.1.mlp.dense_4h_to_h.weight"), (Shape{24, 96 / ranks}));
      EXPECT_EQ(cut("ln_f.bias"), (Shape{24}));
      ASSERT_EQ(plan.divisions.size(), 1u);
      EXPECT_EQ(plan.divisions[0].nodes.at(1).after, 12 / ranks);
      EXPECT_TRUE(unsupported(plan).empty());
    }
  }
}

TEST(BloomPolicy, FitsEveryWayToSplitSequences) {
  for (const char* architecture : kClasses)
    for (const ParallelSizes& sizes :
         {ParallelSizes{.tensor = 2, .sequence_mode = "split_gather"},
          ParallelSizes{.tensor = 2, .sequence = 2, .sequence_mode = "all_to_all"},
          ParallelSizes{.sequence = 2, .sequence_mode = "ring_attn"}})
      EXPECT_TRUE(unsupported(build_plan(describe(small(), architecture), policy(), sizes)).empty())
          << architecture;
}

TEST(BloomPolicy, CutsATiedHeadAsTheEmbedding) {
  for (const bool tied : {true, false}) {
    const Plan plan = build_plan(describe(small().with_json("tie_word_embeddings", tied ? "true" : "false")),
                                 policy(), {.tensor = 2});
    EXPECT_EQ(plan.ties.size(), tied ? 1u : 0u);
    EXPECT_EQ(local(plan, "lm_head.weight"), (Shape{51, 24}));
  }
}

TEST(BloomPolicy, KeepsTheSmallHeadsWhole) {
  for (const auto& [architecture, parameter, rows] :
       {std::tuple("BloomForSequenceClassification", "score.weight", 3),
        std::tuple("BloomForTokenClassification", "classifier.weight", 3),
        std::tuple("BloomForQuestionAnswering", "qa_outputs.weight", 2)})
    EXPECT_EQ(local(build_plan(describe(small(), architecture), policy(), {.tensor = 2}), parameter),
              (Shape{rows, 24}));
}

}  // namespace
}  // namespace weft::plan::test

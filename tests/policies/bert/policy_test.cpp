// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "bert_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/local_shape.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kSmall =
    R"({"vocab_size": 101, "hidden_size": 24, "intermediate_size": 32, "num_attention_heads": 4,
        "num_hidden_layers": 2, "max_position_embeddings": 16})";

constexpr const char* kClasses[] = {"BertModel",
                                    "BertForPreTraining",
                                    "BertLMHeadModel",
                                    "BertForMaskedLM",
                                    "BertForSequenceClassification",
                                    "BertForTokenClassification",
                                    "BertForNextSentencePrediction",
                                    "BertForMultipleChoice",
                                    "BertForQuestionAnswering"};

Policy policy() {
  return compiled_policy("bert");
}

ModelDescription describe(std::string_view architecture = "BertForMaskedLM") {
  static std::vector<std::shared_ptr<nn::Model>> models;  // descriptions point into them
  models.push_back(bert::make_model(Config::parse(kSmall, "test"), architecture, at::kFloat));
  return describe_model(*models.back());
}

using Shape = std::vector<int64_t>;

TEST(BertPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  EXPECT_TELLS(
      refusal(describe(), policy(), {.tensor = 3}),
      "\"num_attention_heads\" is 4, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
  EXPECT_TELLS(refusal(describe(), policy(), {.tensor = 2, .sequence = 4, .sequence_mode = "all_to_all"}),
               "\"num_attention_heads\" is 4, not a multiple of 8");
}

TEST(BertPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : kClasses) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan =
          build_plan(describe(architecture), policy(), {.tensor = static_cast<uint32_t>(ranks)});
      const auto cut = [&](const char* name) { return local(plan, name); };
      EXPECT_EQ(cut("embeddings.word_embeddings.weight"), (Shape{(101 + ranks - 1) / ranks, 24}))
          << architecture;
      EXPECT_EQ(cut("embeddings.position_embeddings.weight"), (Shape{16, 24}));
      EXPECT_EQ(cut("embeddings.token_type_embeddings.weight"), (Shape{2, 24}));
      for (const char* name : {"query", "key", "value"}) {
        const std::string path = fmt::format("encoder.layer.1.attention.self.{}.", name);
        EXPECT_EQ(local(plan, path + "weight"), (Shape{24 / ranks, 24})) << name;
        EXPECT_EQ(local(plan, path + "bias"), (Shape{24 / ranks})) << name;
      }
      EXPECT_EQ(cut("encoder.layer.0.attention.output.dense.weight"), (Shape{24, 24 / ranks}));
      EXPECT_EQ(cut("encoder.layer.0.attention.output.dense.bias"), (Shape{24}));
      EXPECT_EQ(cut("encoder.layer.1.intermediate.dense.weight"), (Shape{32 / ranks, 24}));
      EXPECT_EQ(cut("encoder.layer.1.intermediate.dense.bias"), (Shape{32 / ranks}));
      EXPECT_EQ(cut("encoder.layer.1.output.dense.weight"), (Shape{24, 32 / ranks}));
      EXPECT_EQ(cut("encoder.layer.0.output.LayerNorm.weight"), (Shape{24}));
      ASSERT_EQ(plan.divisions.size(), 1u);
      EXPECT_EQ(plan.divisions[0].nodes.at(1).after, 4 / ranks);
    }
  }
}

// The last rank has fewer tokens, of the bias as of the weight. The second name of the bias is not planned.
TEST(BertPolicy, CutsTheDecoderAsTheEmbedding) {
  for (const char* architecture : {"BertForPreTraining", "BertLMHeadModel", "BertForMaskedLM"}) {
    const Plan plan = build_plan(describe(architecture), policy(), {.tensor = 4});
    ASSERT_EQ(plan.ties.size(), 1u);
    EXPECT_EQ(local(plan, "cls.predictions.decoder.weight"), (Shape{26, 24}));
    EXPECT_EQ(local(plan, "cls.predictions.decoder.bias"), (Shape{26}));
    EXPECT_EQ(local(plan, "cls.predictions.decoder.bias", 3), (Shape{23}));
    EXPECT_EQ(find(plan, "cls.predictions.bias"), nullptr);
    EXPECT_EQ(local(plan, "cls.predictions.transform.dense.weight"), (Shape{24, 24}));
  }
  const int64_t base = build_plan(describe("BertModel"), policy(), {}).num_parameters;
  const int64_t pooler = 24 * 24 + 24, transform = 24 * 24 + 3 * 24;
  EXPECT_EQ(build_plan(describe("BertForMaskedLM"), policy(), {}).num_parameters,
            base - pooler + transform + 101);
}

TEST(BertPolicy, KeepsTheSmallLayersWhole) {
  const Plan plan = build_plan(describe("BertForPreTraining"), policy(), {.tensor = 2});
  EXPECT_EQ(local(plan, "pooler.dense.weight"), (Shape{24, 24}));
  EXPECT_EQ(local(plan, "cls.seq_relationship.weight"), (Shape{2, 24}));
  EXPECT_EQ(
      local(build_plan(describe("BertForMultipleChoice"), policy(), {.tensor = 2}), "classifier.weight"),
      (Shape{1, 24}));
}

// With every way to split sequences. A class with a pooler gathers them before its head.
TEST(BertPolicy, FitsEveryWayToSplitSequences) {
  for (const char* architecture : kClasses)
    for (const bool parallel_output : {false, true})
      for (const ParallelSizes& sizes :
           {ParallelSizes{.tensor = 2, .sequence_mode = "split_gather"},
            ParallelSizes{.tensor = 4, .sequence_mode = "ring"},
            ParallelSizes{.tensor = 2, .sequence = 2, .sequence_mode = "all_to_all"},
            ParallelSizes{.sequence = 2, .sequence_mode = "ring_attn"}}) {
        ParallelSizes own = sizes;
        own.parallel_output = parallel_output;
        const Plan plan = build_plan(describe(architecture), policy(), own);
        EXPECT_TRUE(unsupported(plan).empty()) << architecture;
        const bool gathers =
            std::any_of(plan.replacements.begin(), plan.replacements.end(),
                        [](const Replacement& entry) { return entry.operation == "weft.sequence_end/1"; });
        const std::string_view name = architecture;
        const bool splits_head =
            parallel_output && own.sequence > 1 && (name == "BertForMaskedLM" || name == "BertLMHeadModel");
        EXPECT_EQ(gathers, !splits_head) << architecture;
      }
}

}  // namespace
}  // namespace weft::plan::test

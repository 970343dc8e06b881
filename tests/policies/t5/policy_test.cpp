// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/oracle.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kSmall =
    R"({"vocab_size": 101, "d_model": 12, "d_kv": 5, "d_ff": 16, "num_heads": 4, "num_layers": 2,
        "num_decoder_layers": 3, "num_labels": 3})";
constexpr const char* kGeneration = "T5ForConditionalGeneration";

Policy policy() {
  return compiled_policy("t5");
}

Config small() {
  return Config::parse(kSmall, "test");
}

Plan planned(const Config& config, std::string_view architecture, uint32_t ranks) {
  const auto model = weft::test::make_model(config, architecture);
  return build_plan(describe_model(*model), policy(), {.tensor = ranks});
}

// Returns the shape of the part of a parameter that rank 0 keeps.
std::vector<int64_t> local(const Plan& plan, std::string_view parameter) {
  std::vector<PlannedNode> nodes = plan.replicated;
  for (const Replacement& entry : plan.replacements)
    nodes.insert(nodes.end(), entry.nodes.begin(), entry.nodes.end());
  for (const PlannedNode& node : nodes)
    for (const PlannedParameter& cut : node.params)
      if (node.path + "." + cut.name == parameter) return cut.local(0);
  throw Error(WEFT_NOT_FOUND, fmt::format("the plan has no {}", parameter));
}

using Shape = std::vector<int64_t>;

TEST(T5Policy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  const auto model = weft::test::make_model(small(), kGeneration);
  EXPECT_TELLS(refusal(describe_model(*model), policy(), {.tensor = 3}),
               "\"num_heads\" is 4, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
  const auto other = weft::test::make_model(
      small().with_json("num_heads", "null").with_json("num_attention_heads", "4"), kGeneration);
  EXPECT_TELLS(refusal(describe_model(*other), policy(), {.tensor = 3}),
               "\"num_attention_heads\" is 4, not a multiple of 3");
}

TEST(T5Policy, SplitSequencesShareTheHeadsWhereTheseAreExchanged) {
  const auto model = weft::test::make_model(small(), kGeneration);
  const ParallelSizes sizes = {.tensor = 2, .sequence = 4, .sequence_mode = "all_to_all"};
  EXPECT_TELLS(refusal(describe_model(*model), policy(), sizes), "\"num_heads\" is 4, not a multiple of 8");
}

TEST(T5Policy, CutsBothStacksForOneTwoAndFourRanks) {
  for (const char* architecture : {"T5Model", kGeneration}) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan = planned(small(), architecture, static_cast<uint32_t>(ranks));
      const Shape vocabulary = {(101 + ranks - 1) / ranks, 12};
      for (const char* name : {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
        EXPECT_EQ(local(plan, name), vocabulary) << name;
      for (const char* attention :
           {"encoder.block.1.layer.0.SelfAttention", "decoder.block.2.layer.0.SelfAttention",
            "decoder.block.0.layer.1.EncDecAttention"}) {
        for (const char* name : {".q.weight", ".k.weight", ".v.weight"})
          EXPECT_EQ(local(plan, attention + std::string(name)), (Shape{20 / ranks, 12})) << attention << name;
        EXPECT_EQ(local(plan, attention + std::string(".o.weight")), (Shape{12, 20 / ranks})) << attention;
      }
      EXPECT_EQ(local(plan, "decoder.block.1.layer.2.DenseReluDense.wi.weight"), (Shape{16 / ranks, 12}));
      EXPECT_EQ(local(plan, "encoder.block.1.layer.1.DenseReluDense.wo.weight"), (Shape{12, 16 / ranks}));
      for (const char* stack : {"encoder", "decoder"}) {
        const char* bias = ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
        EXPECT_EQ(local(plan, stack + std::string(bias)), (Shape{32, 4 / ranks})) << stack;
      }
      EXPECT_EQ(local(plan, "decoder.block.1.layer.1.layer_norm.weight"), (Shape{12}));
      EXPECT_EQ(local(plan, "encoder.final_layer_norm.weight"), (Shape{12}));
      ASSERT_EQ(plan.divisions.size(), 1u);
      EXPECT_EQ(plan.divisions[0].nodes.size(), 2u + 2 * 3);
      for (const DividedNode& node : plan.divisions[0].nodes) EXPECT_EQ(node.after, 4 / ranks) << node.path;
    }
  }
}

TEST(T5Policy, CutsBothHalvesOfAGatedFeedForwardAlike) {
  const Plan plan = planned(small().with("feed_forward_proj", "gated-gelu"), kGeneration, 4);
  for (const char* name : {"wi_0", "wi_1"}) {
    EXPECT_EQ(local(plan, fmt::format("encoder.block.0.layer.1.DenseReluDense.{}.weight", name)),
              (Shape{4, 12}));
    EXPECT_EQ(local(plan, fmt::format("decoder.block.0.layer.2.DenseReluDense.{}.weight", name)),
              (Shape{4, 12}));
  }
  EXPECT_EQ(local(plan, "decoder.block.0.layer.2.DenseReluDense.wo.weight"), (Shape{12, 4}));
}

TEST(T5Policy, CutsTheHeadAsTheEmbeddingTiedOrNot) {
  const Plan tied = planned(small(), kGeneration, 2);
  EXPECT_EQ(tied.ties.size(), 3u);
  EXPECT_EQ(local(tied, "lm_head.weight"), (Shape{51, 12}));
  for (const char* key : {"tie_word_embeddings", "scale_decoder_outputs"}) {
    const Plan untied = planned(small().with_json(key, "false"), kGeneration, 2);
    EXPECT_EQ(untied.ties.size(), 2u) << key;
    EXPECT_EQ(local(untied, "lm_head.weight"), (Shape{51, 12})) << key;
  }
}

TEST(T5Policy, TakesClassesWithoutADecoder) {
  for (const char* architecture : {"T5EncoderModel", "T5ForTokenClassification"}) {
    const Plan plan = planned(small(), architecture, 2);
    EXPECT_EQ(plan.ties.size(), 1u);
    EXPECT_EQ(local(plan, "encoder.block.0.layer.0.SelfAttention.q.weight"), (Shape{10, 12}));
  }
  EXPECT_EQ(local(planned(small(), "T5ForTokenClassification", 2), "classifier.weight"), (Shape{3, 12}));
}

}  // namespace
}  // namespace weft::plan::test

// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "opt_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/local_shape.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kSmall =
    R"({"vocab_size": 101, "hidden_size": 24, "ffn_dim": 32, "word_embed_proj_dim": 10, "num_attention_heads": 4,
        "num_hidden_layers": 2, "max_position_embeddings": 16, "num_labels": 3})";

constexpr const char* kClasses[] = {"OPTModel", "OPTForCausalLM", "OPTForSequenceClassification",
                                    "OPTForQuestionAnswering"};

Policy policy() {
  return compiled_policy("opt");
}

ModelDescription describe(const Config& config, std::string_view architecture = "OPTForCausalLM") {
  static std::vector<std::shared_ptr<nn::Model>> models;  // descriptions point into them
  models.push_back(opt::make_model(config, architecture, at::kFloat));
  return describe_model(*models.back());
}

Config small() {
  return Config::parse(kSmall, "test");
}

using Shape = std::vector<int64_t>;

TEST(OptPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  EXPECT_TELLS(
      refusal(describe(small()), policy(), {.tensor = 3}),
      "\"num_attention_heads\" is 4, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
}

TEST(OptPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : kClasses) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan =
          build_plan(describe(small(), architecture), policy(), {.tensor = static_cast<uint32_t>(ranks)});
      const auto cut = [&](const char* name) { return local(plan, name); };
      EXPECT_EQ(cut("decoder.embed_tokens.weight"), (Shape{(101 + ranks - 1) / ranks, 10})) << architecture;
      EXPECT_EQ(cut("decoder.embed_positions.weight"), (Shape{18, 24}));
      EXPECT_EQ(cut("decoder.project_in.weight"), (Shape{24, 10}));
      EXPECT_EQ(cut("decoder.project_out.weight"), (Shape{10, 24}));
      for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
        const std::string path = fmt::format("decoder.layers.1.self_attn.{}.", name);
        EXPECT_EQ(local(plan, path + "weight"), (Shape{24 / ranks, 24})) << name;
        EXPECT_EQ(local(plan, path + "bias"), (Shape{24 / ranks})) << name;
      }
      EXPECT_EQ(cut("decoder.layers.0.self_attn.out_proj.weight"), (Shape{24, 24 / ranks}));
      EXPECT_EQ(cut("decoder.layers.0.self_attn.out_proj.bias"), (Shape{24}));
      EXPECT_EQ(cut("decoder.layers.1.fc1.weight"), (Shape{32 / ranks, 24}));
      EXPECT_EQ(cut("decoder.layers.1.fc1.bias"), (Shape{32 / ranks}));
      EXPECT_EQ(cut("decoder.layers.1.fc2.weight"), (Shape{24, 32 / ranks}));
      EXPECT_EQ(cut("decoder.layers.0.final_layer_norm.weight"), (Shape{24}));
      ASSERT_EQ(plan.divisions.size(), 1u);
      EXPECT_EQ(plan.divisions[0].nodes.at(1).after, 4 / ranks);
      EXPECT_TRUE(unsupported(plan).empty());
    }
  }
}

// Without projections, biases, parameters of norms and the last norm, with every way to split sequences.
TEST(OptPolicy, FitsEveryConfiguration) {
  const std::pair<const char*, const char*> kKeys[] = {{"word_embed_proj_dim", "24"},
                                                       {"enable_bias", "false"},
                                                       {"layer_norm_elementwise_affine", "false"},
                                                       {"_remove_final_layer_norm", "true"},
                                                       {"do_layer_norm_before", "false"}};
  for (const auto& [key, value] : kKeys) {
    const Config config = small().with_json(key, value);
    for (const char* architecture : kClasses)
      for (const ParallelSizes& sizes :
           {ParallelSizes{.tensor = 2}, ParallelSizes{.tensor = 2, .sequence_mode = "split_gather"},
            ParallelSizes{.tensor = 2, .sequence = 2, .sequence_mode = "all_to_all"},
            ParallelSizes{.sequence = 2, .sequence_mode = "ring_attn"}})
        EXPECT_TRUE(unsupported(build_plan(describe(config, architecture), policy(), sizes)).empty())
            << key << " " << architecture;
  }
}

TEST(OptPolicy, CutsATiedHeadAsTheEmbedding) {
  for (const bool tied : {true, false}) {
    const Plan plan = build_plan(describe(small().with_json("tie_word_embeddings", tied ? "true" : "false")),
                                 policy(), {.tensor = 2});
    EXPECT_EQ(plan.ties.size(), tied ? 1u : 0u);
    EXPECT_EQ(local(plan, "lm_head.weight"), (Shape{51, 10}));
  }
}

TEST(OptPolicy, KeepsTheSmallHeadsWhole) {
  EXPECT_EQ(local(build_plan(describe(small(), "OPTForSequenceClassification"), policy(), {.tensor = 2}),
                  "score.weight"),
            (Shape{3, 10}));
  EXPECT_EQ(local(build_plan(describe(small(), "OPTForQuestionAnswering"), policy(), {.tensor = 2}),
                  "qa_outputs.bias"),
            (Shape{2}));
}

}  // namespace
}  // namespace weft::plan::test

// The shipped policy on the shipped models.
#include "apply/describe_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/local_shape.hpp"
#include "vit_model.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kClasses[] = {"ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling"};

Policy policy() {
  return compiled_policy("vit");
}

Config small() {
  return Config::parse(R"({"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2,
      "intermediate_size": 32, "image_size": 6, "patch_size": 2, "encoder_stride": 2, "num_labels": 3})",
                       "test");
}

ModelDescription describe(const Config& config, std::string_view architecture) {
  static std::vector<std::shared_ptr<weft::nn::Model>> models;  // descriptions point into them
  models.push_back(vit::make_model(config, architecture, at::kFloat));
  return describe_model(*models.back());
}

using Shape = std::vector<int64_t>;

TEST(VitPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  EXPECT_TELLS(
      refusal(describe(small(), "ViTModel"), policy(), {.tensor = 3}),
      "\"num_attention_heads\" is 4, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
  const ParallelSizes sizes = {.tensor = 2, .sequence = 4, .sequence_mode = "all_to_all"};
  EXPECT_TELLS(refusal(describe(small(), "ViTModel"), policy(), sizes),
               "\"num_attention_heads\" is 4, not a multiple of 8");
}

TEST(VitPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : kClasses) {
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan =
          build_plan(describe(small(), architecture), policy(), {.tensor = static_cast<uint32_t>(ranks)});
      const auto cut = [&](const std::string& name) { return local(plan, name); };
      EXPECT_EQ(cut("embeddings.cls_token"), (Shape{1, 1, 24})) << architecture;
      EXPECT_EQ(cut("embeddings.position_embeddings"), (Shape{1, 10, 24}));
      EXPECT_EQ(cut("embeddings.patch_embeddings.projection.weight"), (Shape{24, 3, 2, 2}));
      for (const char* name : {"query", "key", "value"}) {
        const std::string path = fmt::format("encoder.layer.1.attention.attention.{}.", name);
        EXPECT_EQ(cut(path + "weight"), (Shape{24 / ranks, 24})) << name;
        EXPECT_EQ(cut(path + "bias"), (Shape{24 / ranks})) << name;
      }
      EXPECT_EQ(cut("encoder.layer.0.attention.output.dense.weight"), (Shape{24, 24 / ranks}));
      EXPECT_EQ(cut("encoder.layer.0.attention.output.dense.bias"), (Shape{24}));
      EXPECT_EQ(cut("encoder.layer.1.intermediate.dense.weight"), (Shape{32 / ranks, 24}));
      EXPECT_EQ(cut("encoder.layer.1.intermediate.dense.bias"), (Shape{32 / ranks}));
      EXPECT_EQ(cut("encoder.layer.1.output.dense.weight"), (Shape{24, 32 / ranks}));
      EXPECT_EQ(cut("encoder.layer.0.layernorm_after.weight"), (Shape{24}));
      EXPECT_EQ(cut("layernorm.bias"), (Shape{24}));
      ASSERT_EQ(plan.divisions.size(), 1u);
      EXPECT_EQ(plan.divisions[0].nodes.size(), 2u);
      EXPECT_EQ(plan.divisions[0].nodes.at(1).after, 4 / ranks);
      EXPECT_TRUE(unsupported(plan).empty());
    }
  }
}

TEST(VitPolicy, KeepsTheHeadsWhole) {
  const auto head = [](const char* architecture, const char* name) {
    return local(build_plan(describe(small(), architecture), policy(), {.tensor = 2}), name);
  };
  EXPECT_EQ(head("ViTModel", "pooler.dense.weight"), (Shape{24, 24}));
  EXPECT_EQ(head("ViTForImageClassification", "classifier.weight"), (Shape{3, 24}));
  EXPECT_EQ(head("ViTForMaskedImageModeling", "decoder.0.weight"), (Shape{12, 24, 1, 1}));
  EXPECT_EQ(head("ViTForMaskedImageModeling", "embeddings.mask_token"), (Shape{1, 1, 24}));
}

// Every rank has all positions in the embeddings and after the last block.
TEST(VitPolicy, SplitsSequencesBetweenEmbeddingsAndHead) {
  for (const char* architecture : kClasses) {
    for (const ParallelSizes& sizes :
         {ParallelSizes{.tensor = 2, .sequence_mode = "split_gather"},
          ParallelSizes{.tensor = 2, .sequence_mode = "ring"},
          ParallelSizes{.tensor = 2, .sequence = 2, .sequence_mode = "all_to_all"},
          ParallelSizes{.sequence = 2, .sequence_mode = "ring_attn"}}) {
      const Plan plan = build_plan(describe(small(), architecture), policy(), sizes);
      EXPECT_TRUE(unsupported(plan).empty()) << architecture;
      if (sizes.sequence > 1) continue;
      std::vector<std::string> expected;
      for (const char* layer : {"encoder.layer.0.", "encoder.layer.1."})
        for (const char* name :
             {"attention.output.dropout", "layernorm_after", "layernorm_before", "output.dropout"})
          expected.push_back(layer + std::string(name));
      EXPECT_EQ(plan.on_split_sequence, expected) << architecture;
    }
  }
}

}  // namespace
}  // namespace weft::plan::test

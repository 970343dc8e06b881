// The shipped policy on the shipped models.
#include <set>

#include "apply/describe_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "policies/local_shape.hpp"
#include "whisper_model.hpp"

namespace weft::plan::test {
namespace {

constexpr const char* kWhisperGeneration = "WhisperForConditionalGeneration";
constexpr const char* kWhisperClassifier = "WhisperForAudioClassification";
constexpr const char* kClasses[] = {"WhisperModel", kWhisperGeneration, kWhisperClassifier};

Policy policy() {
  return compiled_policy("whisper");
}

Config small() {
  return Config::parse(R"({"vocab_size": 101, "num_mel_bins": 5, "d_model": 24, "encoder_layers": 2,
      "encoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_layers": 3, "decoder_attention_heads": 8,
      "decoder_ffn_dim": 16, "max_source_positions": 7, "max_target_positions": 9, "pad_token_id": 0,
      "decoder_start_token_id": 1, "num_labels": 3, "classifier_proj_size": 6})",
                       "test");
}

ModelDescription describe(const Config& config, std::string_view architecture) {
  static std::vector<std::shared_ptr<weft::nn::Model>> models;  // descriptions point into them
  models.push_back(whisper::make_model(config, architecture, at::kFloat));
  return describe_model(*models.back());
}

Plan planned(const Config& config, std::string_view architecture, int64_t ranks) {
  return build_plan(describe(config, architecture), policy(), {.tensor = static_cast<uint32_t>(ranks)});
}

using Shape = std::vector<int64_t>;

TEST(WhisperPolicy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  EXPECT_TELLS(
      refusal(describe(small(), "WhisperModel"), policy(), {.tensor = 3}),
      "\"encoder_attention_heads\" is 4, not a multiple of 3; the nearest sizes that divide it: 2 and 4");
  EXPECT_TELLS(refusal(describe(small(), "WhisperModel"), policy(), {.tensor = 3}),
               "\"decoder_attention_heads\" is 8, not a multiple of 3");
  const ParallelSizes sizes = {.tensor = 2, .sequence = 4, .sequence_mode = "all_to_all"};
  EXPECT_TELLS(refusal(describe(small(), kWhisperClassifier), policy(), sizes),
               "\"encoder_attention_heads\" is 4, not a multiple of 8");
  for (const char* name : {"num_attention_heads", "num_key_value_heads"}) {
    const Config other = small().with_json("encoder_attention_heads", "null").with_json(name, "4");
    EXPECT_TELLS(refusal(describe(other, kWhisperClassifier), policy(), {.tensor = 3}),
                 fmt::format("\"{}\" is 4, not a multiple of 3", name));
  }
  // A classifier has no decoder.
  EXPECT_NO_THROW(planned(small().with_json("decoder_attention_heads", "3"), kWhisperClassifier, 4));
}

TEST(WhisperPolicy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture : kClasses) {
    const bool decodes = architecture != kWhisperClassifier;
    for (const int64_t ranks : {1, 2, 4}) {
      const Plan plan = planned(small(), architecture, ranks);
      const auto cut = [&](const std::string& name) { return local(plan, name); };
      std::vector<std::string> attentions = {"encoder.layers.1.self_attn."};
      if (decodes)
        attentions.insert(attentions.end(),
                          {"decoder.layers.2.self_attn.", "decoder.layers.0.encoder_attn."});
      for (const std::string& attention : attentions) {
        for (const char* name : {"q_proj", "k_proj", "v_proj"})
          EXPECT_EQ(cut(attention + name + ".weight"), (Shape{24 / ranks, 24})) << attention << name;
        for (const char* name : {"q_proj", "v_proj"})
          EXPECT_EQ(cut(attention + name + ".bias"), (Shape{24 / ranks})) << attention << name;
        EXPECT_EQ(cut(attention + "out_proj.weight"), (Shape{24, 24 / ranks})) << attention;
        EXPECT_EQ(cut(attention + "out_proj.bias"), (Shape{24})) << attention;
      }
      EXPECT_EQ(cut("encoder.layers.0.fc1.weight"), (Shape{32 / ranks, 24}));
      EXPECT_EQ(cut("encoder.layers.0.fc1.bias"), (Shape{32 / ranks}));
      EXPECT_EQ(cut("encoder.layers.1.fc2.weight"), (Shape{24, 32 / ranks}));
      EXPECT_EQ(cut("encoder.layers.0.final_layer_norm.weight"), (Shape{24}));
      EXPECT_EQ(cut("encoder.layer_norm.bias"), (Shape{24}));
      EXPECT_EQ(cut("encoder.conv1.weight"), (Shape{24, 5, 3}));
      EXPECT_EQ(cut("encoder.conv2.weight"), (Shape{24, 24, 3}));
      EXPECT_EQ(cut("encoder.embed_positions.weight"), (Shape{7, 24}));
      ASSERT_EQ(plan.divisions.size(), 1u);
      EXPECT_EQ(plan.divisions[0].nodes.size(), decodes ? 2u + 2 * 3 : 2u);
      if (!decodes) continue;
      EXPECT_EQ(cut("decoder.layers.1.fc2.weight"), (Shape{24, 16 / ranks}));
      EXPECT_EQ(cut("decoder.embed_tokens.weight"), (Shape{(101 + ranks - 1) / ranks, 24}));
      EXPECT_EQ(cut("decoder.embed_positions.weight"), (Shape{9, 24}));
    }
  }
}

TEST(WhisperPolicy, DividesTheHeadsOfBothStacks) {
  const Plan plan = planned(small(), kWhisperGeneration, 4);
  for (const DividedNode& node : plan.divisions.at(0).nodes)
    EXPECT_EQ(node.after, node.path.starts_with("encoder.") ? 1 : 2) << node.path;
}

TEST(WhisperPolicy, CutsTheHeadsAsTheirClassesNeed) {
  const Plan tied = planned(small(), kWhisperGeneration, 2);
  ASSERT_EQ(tied.ties.size(), 1u);
  EXPECT_EQ(local(tied, "proj_out.weight"), (Shape{51, 24}));
  const Plan untied = planned(small().with_json("tie_word_embeddings", "false"), kWhisperGeneration, 2);
  EXPECT_TRUE(untied.ties.empty());
  EXPECT_EQ(local(untied, "proj_out.weight"), (Shape{51, 24}));
  EXPECT_EQ(untied.num_parameters - tied.num_parameters, 101 * 24);
  const Plan classifier = planned(small(), kWhisperClassifier, 2);
  EXPECT_EQ(local(classifier, "projector.weight"), (Shape{6, 24}));
  EXPECT_EQ(local(classifier, "classifier.weight"), (Shape{3, 6}));
  // The weights of the layers, which belong to the model itself in files.
  const Plan weighted = planned(small().with_json("use_weighted_layer_sum", "true"), kWhisperClassifier, 2);
  EXPECT_EQ(local(weighted, "layer_mix.weight"), (Shape{3}));
  EXPECT_EQ(weighted.num_parameters - classifier.num_parameters, 3);
}

// Every rank has all positions of the encoder before the split. The norm after the last block of the encoder
// is before its end too.
TEST(WhisperPolicy, SplitsBothSequences) {
  for (const char* architecture : kClasses) {
    for (const ParallelSizes& sizes :
         {ParallelSizes{.tensor = 2, .sequence_mode = "split_gather"},
          ParallelSizes{.tensor = 2, .sequence_mode = "ring"},
          ParallelSizes{.tensor = 2, .sequence = 2, .sequence_mode = "all_to_all"},
          ParallelSizes{.sequence = 2, .sequence_mode = "ring_attn"}}) {
      const Plan plan = build_plan(describe(small(), architecture), policy(), sizes);
      EXPECT_TRUE(unsupported(plan).empty()) << architecture;
      if (sizes.sequence > 1) continue;
      const std::set<std::string> split(plan.on_split_sequence.begin(), plan.on_split_sequence.end());
      EXPECT_FALSE(split.contains("encoder.dropout"));
      for (const char* name : {"encoder.layers.0.self_attn_layer_norm", "encoder.layers.1.final_layer_norm",
                               "encoder.layers.1.dropout", "encoder.layer_norm"})
        EXPECT_TRUE(split.contains(name)) << architecture << " " << name;
      if (architecture == kWhisperClassifier) continue;
      for (const char* name : {"decoder.dropout", "decoder.layers.2.encoder_attn_layer_norm",
                               "decoder.layers.0.final_layer_norm", "decoder.layer_norm"})
        EXPECT_TRUE(split.contains(name)) << architecture << " " << name;
    }
  }
}

}  // namespace
}  // namespace weft::plan::test

// `weft train --objective`: what it refuses, and that ranks, accumulation and interruptions change nothing.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

// Without dropout, whose numbers depend on the ranks. The bytes of a text are 10 to 126.
constexpr const char* kBert =
    R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 131,
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})";
constexpr const char* kVit = R"({"model_type": "vit", "architectures": ["ViTForMaskedImageModeling"],
    "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "image_size": 16, "patch_size": 4, "encoder_stride": 4, "num_channels": 1})";

class Objectives : public CommandTest {
 protected:
  Words bert(const Words& more) const {
    return Words{"train",     "--model",         bert_, "--data", data_, "--objective",
                 "masked_lm", "--mask-token-id", "3",   "--lr",   "0.01"} +
           more;
  }
  std::vector<double> losses(const std::string& file) const {
    std::vector<double> losses;
    for (const nlohmann::json& line : read_metrics(in(file))) losses.push_back(line.at("loss"));
    return losses;
  }
  // Returns the losses of 6 steps, in two epochs of 17 samples.
  std::vector<double> trained(const Words& more) const {
    expect_success(bert(Words{"--steps", "6", "--metrics", in("m")} + more));
    return losses("m");
  }

  std::string bert_ = folder_.file("bert.json", kBert);
};

TEST_F(Objectives, MaskTheSameTokensOnAnyRanksAndMicroBatches) {
  const std::vector<double> expected = trained({"--strategy", "none"});
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_NEAR(expected[0], std::log(131), 0.2);
  for (const Words& more : {Words{"-n", "2"}, Words{"-n", "4"}, Words{"-n", "2", "--accumulate", "4"},
                            Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"}}) {
    const std::vector<double> found = trained(more);
    ASSERT_EQ(found.size(), 6u);
    for (size_t i = 0; i < 6; ++i)
      EXPECT_NEAR(found[i], expected[i], 2e-5 * expected[i]) << testing::PrintToString(more) << " " << i;
  }
  EXPECT_GT(std::abs(trained({"--strategy", "none", "--seed", "43"})[0] - expected[0]), 1e-4);
}

TEST_F(Objectives, GoOnBitForBitAfterAResume) {
  for (const Words& how : {Words{"--strategy", "none"}, Words{"-n", "2", "--accumulate", "2"}}) {
    const std::vector<double> whole = trained(how);
    expect_success(bert(Words{"--steps", "4", "--output", in("s"), "--metrics", in("part")} + how));
    expect_success(bert(Words{"--steps", "6", "--resume", in("s"), "--metrics", in("part")} + how));
    EXPECT_EQ(losses("part"), whole) << testing::PrintToString(how);
    std::filesystem::remove_all(in("s"));
  }
}

TEST_F(Objectives, AreTheSameInAResumedRun) {
  expect_success(bert({"--steps", "2", "--strategy", "none", "--output", in("s")}));
  const Words resumed = bert({"--steps", "4", "--strategy", "none", "--resume", in("s")});
  EXPECT_TRUE(refuses(resumed + Words{"--mlm-probability", "0.16"}, 1,
                      {"masked_lm with mask_token_id 3, special_ids [], mlm_probability 0.15 and seed 42",
                       "of masked_lm", "0.16"}));
  EXPECT_TRUE(refuses(resumed + Words{"--special-ids", "1,2"}, 1, {"special_ids [1, 2]"}));
}

TEST_F(Objectives, TakeAVocabularyWithoutSpecialIds) {
  const Words steps = {"--steps", "2", "--strategy", "none", "--metrics", in("m")};
  expect_success(bert(steps));
  const std::vector<double> without = losses("m");
  expect_success(bert(steps + Words{"--special-ids", ""}));
  EXPECT_EQ(losses("m"), without);
  EXPECT_TRUE(refuses(bert(steps + Words{"--special-ids", "1,"}), 2, {"element 2 of --special-ids"}));
}

TEST_F(Objectives, LearnAndAreEvaluated) {
  const Words evaluate = {"--data", data_, "--objective", "masked_lm", "--mask-token-id", "3"};
  expect_success(bert({"--steps", "60", "--strategy", "none", "--output", in("out")}));
  const auto measure = [&](const Words& more) {
    return nlohmann::json::parse(
        expect_success(Words{"evaluate", "--model", in("out"), "--json"} + evaluate + more).out);
  };
  const nlohmann::json alone = measure({}), on_ranks = measure({"-n", "3", "--batch-size", "6"});
  EXPECT_LT(alone.at("loss"), 3.5);
  EXPECT_NEAR(alone.at("perplexity"), std::exp(alone.at("loss").get<double>()), 1e-9);
  EXPECT_EQ(alone.at("labels"), on_ranks.at("labels"));
  EXPECT_NEAR(alone.at("loss"), on_ranks.at("loss"), 1e-5);
  // About 15 % of 17 * 32 tokens.
  EXPECT_GT(alone.at("labels"), 40);
  EXPECT_LT(alone.at("labels"), 130);
}

TEST_F(Objectives, AreTheUsualOnesOfTheClass) {
  const Words train = {"train", "--data", data_, "--steps", "2", "--strategy", "none", "--metrics", in("m")};
  expect_success(train + Words{"--model", config_});
  const std::vector<double> usual = losses("m");
  expect_success(train + Words{"--model", config_, "--objective", "causal_lm"});
  EXPECT_EQ(losses("m"), usual);
  expect_success(train + Words{"--model", bert_, "--mask-token-id", "3"});
  const std::vector<double> masked = losses("m");
  expect_success(train + Words{"--model", bert_, "--mask-token-id", "3", "--objective", "masked_lm"});
  EXPECT_EQ(losses("m"), masked);
  EXPECT_TRUE(refuses({"train", "--model", bert_, "--data", data_}, 1,
                      {"BertForMaskedLM", "masked_lm", "needs --mask-token-id", "[MASK]"}));
}

// A file of ids alone gets labels, one with labels has its own.
TEST_F(Objectives, MakeTheLabelsThatAFileLacks) {
  RawTensors samples = language_samples(9, 16);
  const std::string labelled = folder_.file("labelled.safetensors", safetensors_bytes(samples));
  samples.erase("labels");
  const std::string ids = folder_.file("ids.safetensors", safetensors_bytes(samples));
  const Words train = {"train", "--model", config_, "--steps", "2", "--strategy", "none", "--data"};
  expect_success(train + Words{ids, "--objective", "causal_lm"});
  EXPECT_TRUE(refuses(train + Words{ids}, 1, {"no labels"}));
  expect_success(train + Words{labelled});
  EXPECT_TRUE(refuses(train + Words{labelled, "--objective", "causal_lm"}, 1,
                      {"labelled.safetensors", "have \"labels\" already", "leave out --objective"}));
}

TEST_F(Objectives, AreMadeOfIntegersAndTheirMask) {
  const Words train = {"train", "--model", config_, "--steps", "2", "--objective", "causal_lm", "--data"};
  const RawTensor fractions = float_tensor({4, 8}, std::vector<float>(32, 1.5F)),
                  ids = int64_tensor({4, 8}, std::vector<int64_t>(32, 5)),
                  mask = int64_tensor({4, 1}, std::vector<int64_t>(4, 1));
  EXPECT_TRUE(
      refuses(train + Words{folder_.file("a.safetensors", safetensors_bytes({{"input_ids", fractions}}))}, 1,
              {"a.safetensors", "\"input_ids\" is Float", "int64 or int32"}));
  EXPECT_TRUE(
      refuses(train + Words{folder_.file("b.safetensors",
                                         safetensors_bytes({{"input_ids", ids}, {"attention_mask", mask}}))},
              1, {"b.safetensors", "\"attention_mask\" is [1, 1]", "\"input_ids\", which is [1, 8]"}));
}

TEST_F(Objectives, AreRefusedForAClassThatCannotLearnByThem) {
  const Words steps = {"--data", data_, "--steps", "1"};
  const auto objective = [&](const std::string& model, const std::string& name, const Words& more = {}) {
    return Words{"train", "--model", model, "--objective", name} + steps + more;
  };
  EXPECT_TRUE(refuses(objective(config_, "mask_lm"), 1,
                      {"--objective is \"mask_lm\", must be causal_lm, masked_lm, next_sentence, "
                       "masked_lm_next_sentence, masked_image",
                       "did you mean \"masked_lm\"?"}));
  EXPECT_TRUE(refuses(objective(config_, "masked_lm", {"--mask-token-id", "3"}), 1,
                      {"GPT2LMHeadModel", "--objective masked_lm", "by causal_lm"}));
  EXPECT_TRUE(refuses(objective(bert_, "causal_lm"), 1,
                      {"BertForMaskedLM", "--objective causal_lm", "by masked_lm"}));
  EXPECT_TRUE(refuses(objective(config_, "masked_image", {"-n", "2"}), 1,
                      {"--objective masked_image", "by causal_lm"}));
  const std::string labels = "from labels";
  EXPECT_TRUE(refuses(objective(config_, "causal_lm", {"--architecture", "GPT2ForSequenceClassification"}), 1,
                      {"GPT2ForSequenceClassification", "--objective", "labels of rows"}));
  // Its positions see later tokens.
  EXPECT_TRUE(refuses(objective(bert_, "causal_lm", {"--architecture", "BertLMHeadModel"}), 1,
                      {"BertLMHeadModel", "--objective causal_lm", labels}));
  EXPECT_TRUE(refuses(objective(config_, ""), 1, {"--objective is empty"}));
}

TEST_F(Objectives, RefuseSettingsThatAreWrongOrWithoutEffect) {
  const auto with = [&](const Words& more) {
    return Words{"train", "--model", bert_, "--data", data_, "--steps", "1"} + more;
  };
  const Words masked = {"--objective", "masked_lm"};
  EXPECT_TRUE(refuses(with(masked), 1, {"needs --mask-token-id", "the tokenizer"}));
  EXPECT_TRUE(refuses(with(masked + Words{"--mask-token-id", "131"}), 1,
                      {"--mask-token-id is 131", "vocabulary of BertForMaskedLM", "0 to 130"}));
  EXPECT_TRUE(refuses(with(masked + Words{"--mask-token-id", "-1"}), 1, {"--mask-token-id is -1"}));
  EXPECT_TRUE(refuses(with(masked + Words{"--mask-token-id", "3", "--special-ids", "1,200"}), 1,
                      {"--special-ids has 200", "0 to 130"}));
  for (const char* share : {"0", "1.5", "-0.1"})
    EXPECT_TRUE(refuses(with(masked + Words{"--mask-token-id", "3", "--mlm-probability", share}), 1,
                        {"--mlm-probability is", "more than 0", "at most 1"}));
  EXPECT_TRUE(refuses(with(masked + Words{"--mask-token-id", "3", "--mask-ratio", "0.5"}), 1,
                      {"--mask-ratio", "objective masked_image", "by masked_lm"}));
  const Words causal = {"train", "--model", config_, "--data", data_, "--steps", "1"};
  for (const Words& setting : {Words{"--mask-token-id", "3"}, Words{"--special-ids", "1"},
                               Words{"--special-ids", ""}, Words{"--mlm-probability", "0.2"}})
    EXPECT_TRUE(
        refuses(causal + setting, 1, {setting[0], "objective masked_lm", "by causal_lm", "leave it"}));
  const std::string labelled =
      folder_.file("labelled.safetensors", safetensors_bytes(language_samples(4, 8, 131)));
  EXPECT_TRUE(refuses({"train", "--model", bert_, "--data", labelled, "--mask-token-id", "3"}, 1,
                      {"--mask-token-id", "objective masked_lm", "labels are"}));
  EXPECT_TRUE(
      refuses({"evaluate", "--model", config_, "--allow-missing", "--data", data_, "--mask-token-id", "3"}, 1,
              {"--mask-token-id", "objective masked_lm"}));
}

TEST_F(Objectives, MaskImages) {
  const std::string vit = folder_.file("vit.json", kVit);
  std::vector<float> pixels(9 * 256);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 17) / 17;
  folder_.file("images.safetensors",
               safetensors_bytes({{"pixel_values", float_tensor({9, 1, 16, 16}, pixels)}}));
  const Words train = {"train",       "--model",      vit,       "--data", in("images.safetensors"),
                       "--objective", "masked_image", "--steps", "4",      "--metrics",
                       in("m"),       "--batch-size", "4"};
  EXPECT_TRUE(refuses(train, 1, {"16 x 16", "side of 32", "--mask-patch-size"}));
  EXPECT_TRUE(refuses(train + Words{"--mask-patch-size", "6"}, 1, {"--mask-patch-size is 6", "4 x 4"}));
  EXPECT_TRUE(
      refuses(train + Words{"--mask-patch-size", "8", "--mask-ratio", "0"}, 1, {"--mask-ratio is 0"}));
  EXPECT_TRUE(refuses(train + Words{"--mask-token-id", "3"}, 1,
                      {"--mask-token-id", "masked_lm or masked_lm_next_sentence", "by masked_image"}));
  expect_success(train + Words{"--mask-patch-size", "8", "--strategy", "none"});
  const std::vector<double> alone = losses("m");
  expect_success(train + Words{"--mask-patch-size", "8", "-n", "2"});
  const std::vector<double> on_ranks = losses("m");
  ASSERT_EQ(on_ranks.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(on_ranks[i], alone[i], 2e-5 * alone[i]);
}

}  // namespace
}  // namespace weft::test

// `weft generate`.
#include <gmock/gmock.h>

#include "train/command.hpp"

namespace weft::test {
namespace {

using testing::StartsWith;

class Generate : public CommandTest {
 protected:
  void SetUp() override { copy_trained_model(); }
  std::string generate(const Words& more, const Words& prompt = {"--prompt", "rank "},
                       const std::string& tokens = "12") const {
    return expect_success(Words{"generate", "--model", in("out"), "--max-new-tokens", tokens} + prompt + more)
        .out;
  }
};

TEST_F(Generate, GreedilyIsDeterministicAndAddsTheTokensAskedFor) {
  const std::string text = generate({"--greedy"});
  EXPECT_THAT(text, StartsWith("rank "));
  EXPECT_EQ(text.size(), 5 + 12 + 1u);
  EXPECT_EQ(generate({"--greedy", "--seed", "5"}), text);
  EXPECT_EQ(generate({"--top-k", "1"}), text);
  EXPECT_EQ(generate({"--top-p", "1e-9"}), text);
  EXPECT_EQ(generate({"--greedy"}, {"--prompt-ids", "114,97,110,107,32"}), text);
  EXPECT_EQ(generate({}, {"--prompt", "rank "}, "0"), "rank \n");
}

TEST_F(Generate, DrawsBySeed) {
  const Words wild = {"--temperature", "3"};
  const std::string text = generate(wild + Words{"--seed", "1"});
  EXPECT_EQ(generate(wild + Words{"--seed", "1"}), text);
  EXPECT_NE(generate(wild + Words{"--seed", "2"}), text);
  EXPECT_NE(generate(wild), generate({"--greedy"}));
  EXPECT_EQ(generate({"--temperature", "1e-6"}), generate({"--greedy"}));
}

TEST_F(Generate, GoesOnBeyondTheLongestSequence) {
  const std::string prompt = sample_text(40);  // the model takes 32
  const std::string text = generate({"--greedy"}, {"--prompt", prompt});
  EXPECT_THAT(text, StartsWith(prompt));
  EXPECT_EQ(text.size(), 40 + 12 + 1u);
  EXPECT_EQ(text.substr(40), generate({"--greedy"}, {"--prompt", prompt.substr(8)}).substr(32));
}

TEST_F(Generate, WritesTokenIdsWhereTokensAreNoBytes) {
  folder_.file("ids.json", config_json({.vocabulary = 50}));
  const Words ids = {"generate", "--model", in("ids.json"), "--greedy", "--max-new-tokens", "3"};
  const std::string text = expect_success(ids + Words{"--prompt-ids", "1,49"}).out;
  EXPECT_THAT(text, testing::MatchesRegex("1,49,[0-9]+,[0-9]+,[0-9]+\n"));
  EXPECT_TRUE(refuses(ids + Words{"--prompt", "text"}, 1,
                      {"--prompt works for models whose tokens are bytes", "--prompt-ids"}));
  EXPECT_TRUE(refuses(ids + Words{"--prompt-ids", "50"}, 1, {"50 is outside", "0 to 49"}));
  EXPECT_TRUE(refuses(ids + Words{"--prompt-ids", "-1"}, 1, {"-1 is outside"}));
  folder_.file("out/tokenizer.json", "{}");
  EXPECT_TRUE(
      refuses({"generate", "--model", in("out"), "--prompt", "text"}, 1, {"no tokenizer in the folder"}));
}

TEST_F(Generate, RefusesWhatMakesNoSense) {
  const auto refused = [&](const Words& more, const std::vector<std::string>& pieces) {
    return refuses(Words{"generate", "--model", in("out"), "--max-new-tokens", "1"} + more, 1, pieces);
  };
  EXPECT_TRUE(refused({}, {"--prompt TEXT", "--prompt-ids"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--prompt-ids", "1"}, {"one of --prompt"}));
  EXPECT_TRUE(refused({"--prompt", ""}, {"the prompt is empty"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--temperature", "0"}, {"--temperature is 0", "--greedy"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--top-k", "-1"}, {"--top-k is -1"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--top-p", "0"}, {"--top-p is 0"}));
  EXPECT_TRUE(
      refused({"--prompt", "a", "--architecture", "GPT2Model"}, {"GPT2Model gives no logits over tokens"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--architecture", "GPT2ForTokenClassification", "--allow-missing"},
                      {"no logits over tokens"}));
}

// Each position of an encoder sees those after it, and what text has for labels are its tokens themselves.
TEST_F(Generate, AndTrainingOnTextRefuseAnEncoder) {
  folder_.file("bert.json", R"({"model_type": "bert", "vocab_size": 256, "hidden_size": 12,
      "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 3})");
  for (const char* architecture : {"BertForMaskedLM", "BertLMHeadModel"}) {
    EXPECT_TRUE(refuses({"generate", "--model", in("bert.json"), "--architecture", architecture, "--prompt",
                         "a", "--allow-missing"},
                        1, {architecture, "does not predict the next token", "causal language model"}));
  }
  const auto train = [&](const char* architecture) {
    return Words{"train",   "--model", in("bert.json"), "--architecture", architecture, "--data", data_,
                 "--steps", "1"};
  };
  EXPECT_TRUE(refuses(train("BertLMHeadModel"), 1,
                      {data_, "BertLMHeadModel", "does not predict the next token", ".safetensors"}));
  EXPECT_TRUE(
      refuses(train("BertForMaskedLM"), 1, {"BertForMaskedLM", "masked_lm", "needs --mask-token-id"}));
}

}  // namespace
}  // namespace weft::test

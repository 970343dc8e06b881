// Next-sentence prediction from documents: what is refused, that both losses of BERT's pre-training are
// learned, and that ranks and interruptions change nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int kDocuments = 6, kWordsOfEach = 4, kVocabulary = 7 + kDocuments * kWordsOfEach;

class SentencePairs : public CommandTest {
 protected:
  void SetUp() override {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n!\n";
    for (int word = 0; word < kDocuments * kWordsOfEach; ++word) vocabulary += word_of(word) + "\n";
    fs::create_directory(in("bert"));
    folder_.file("bert/vocab.txt", vocabulary);
    folder_.file("bert/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
    folder_.file("bert/config.json",
                 fmt::format(R"({{"model_type": "bert", "architectures": ["BertForPreTraining"],
        "vocab_size": {}, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 24, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "initializer_range": 0.1}})",
                             kVocabulary));
    fs::create_directory(in("texts"));
    for (int i = 0; i < kDocuments; ++i) folder_.file(fmt::format("texts/{}.txt", i), document(i));
  }
  // Words of letters alone, which the tokenizer does not split: "waa", "wab", ...
  static std::string word_of(int word) {
    return std::string("w") + static_cast<char>('a' + word / 26) + static_cast<char>('a' + word % 26);
  }
  // A document of words that no other one has, in sentences of 2 to 5 words.
  static std::string document(int number) {
    std::string text;
    for (int i = 0, next = 3 + number % 3; i < 300; ++i) {
      text += word_of(number * kWordsOfEach + (i * i + 3 * i / 5 + number) % kWordsOfEach);
      text += --next == 0 ? (i % 2 == 0 ? ". " : "! ") : " ";
      if (next == 0) next = 2 + (i * 7 + number) % 4;
    }
    return text;
  }
  Words with_data(const std::string& verb, const Words& more = {}) const {
    return Words{verb, "--model", in("bert"), "--data", in("texts"), "--mask-token-id", "4"} + more;
  }
  Words pre_training(const Words& more) const {
    return with_data("train", Words{"--lr", "0.003", "--batch-size", "16"} + more);
  }
  std::vector<double> losses(const Words& more) const {
    expect_success(pre_training(Words{"--steps", "12", "--metrics", in("m")} + more));
    std::vector<double> losses;
    for (const nlohmann::json& line : read_metrics(in("m"))) losses.push_back(line.at("loss"));
    return losses;
  }
  nlohmann::json evaluate(const std::string& model, const Words& more) const {
    return nlohmann::json::parse(
        expect_success(Words{"evaluate", "--model", in(model), "--data", in("texts"), "--json"} + more).out);
  }
};

TEST_F(SentencePairs, AreRefusedWithWhatIsWrong) {
  const auto train = [&](const std::string& data, const Words& more = {}) {
    return Words{"train", "--model", in("bert"), "--data", in(data), "--steps", "1"} + more;
  };
  const Words mask = {"--mask-token-id", "4"};
  EXPECT_TRUE(refuses(train("texts/1.txt", mask + Words{"-n", "2"}), 1,
                      {"1.txt: 1 document", "another document", "JSON lines"}));
  EXPECT_TRUE(refuses(train("texts", mask + Words{"--packing", "documents"}), 1,
                      {"--packing", "no effect", "BertForPreTraining", "of sentences"}));
  EXPECT_TRUE(refuses(train("texts", mask + Words{"--sequence-length", "4"}), 1,
                      {"length is 4", "least 5", "3 special tokens"}));
  folder_.file("ids.bin", std::string(4000, '\1'));
  EXPECT_TRUE(refuses(train("ids.bin", mask), 1,
                      {"ids.bin: BertForPreTraining", "--objective masked_lm_next_sentence",
                       "pairs sentences", "by masked_lm_next_sentence, masked_lm"}));
  EXPECT_TRUE(refuses(train("texts", mask + Words{"--objective", "next_sentence"}), 1,
                      {"BertForPreTraining", "--objective next_sentence"}));
  const Words alone = {"--architecture", "BertForNextSentencePrediction"};
  EXPECT_TRUE(refuses(train("texts", alone + mask), 1,
                      {"--mask-token-id", "masked_lm or masked_lm_next_sentence", "by next_sentence"}));
  fs::create_directory(in("words"));
  folder_.file("words/tokenizer.json", R"({"version": "1.0", "truncation": null, "padding": null,
      "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
      "post_processor": null, "decoder": null,
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2}}})");
  EXPECT_TRUE(refuses(train("texts", alone + Words{"--tokenizer", in("words")}), 1,
                      {"words/tokenizer.json", "two sequences", "gives [1, 2] for \"a\" and \"b\""}));
  EXPECT_TRUE(refuses(train("texts", {"--architecture", "BertForMaskedLM", "--tokenizer", in("words")}), 1,
                      {"BertForMaskedLM", "masked_lm, which needs --mask-token-id"}));
}

TEST_F(SentencePairs, AreLearnedWithMaskedTokens) {
  const std::vector<double> first = losses({"--strategy", "none"});
  ASSERT_EQ(first.size(), 12u);
  EXPECT_NEAR(first[0], std::log(kVocabulary) + std::log(2), 0.5);
  expect_success(pre_training({"--strategy", "none", "--steps", "400", "--output", in("out")}));
  const nlohmann::json result = evaluate("out", {"--mask-token-id", "4"});
  EXPECT_GT(result.at("next_sentence_accuracy"), 0.9);
  EXPECT_GT(result.at("masked_lm_accuracy"), 0.3);
  // The loss is the sum of both, and the perplexity that of the masked tokens.
  const double of_pairs = result.at("loss").get<double>() - std::log(result.at("perplexity").get<double>());
  EXPECT_GT(of_pairs, 1e-4);
  EXPECT_LT(of_pairs, 0.5);
}

// The flag is for tokenizers that do not name their mask.
TEST_F(SentencePairs, AreMaskedByTheTokenOfTheTokenizer) {
  folder_.file("bert/tokenizer_config.json",
               R"({"tokenizer_class": "BertTokenizer", "mask_token": "[MASK]", "cls_token": "[CLS]"})");
  const auto masked_losses = [&](const Words& more) {
    expect_success(Words{"train", "--model", in("bert"), "--architecture", "BertForMaskedLM", "--data",
                         in("texts"), "--objective", "masked_lm", "--strategy", "none", "--steps", "3",
                         "--metrics", in("m")} +
                   more);
    std::vector<double> losses;
    for (const nlohmann::json& line : read_metrics(in("m"))) losses.push_back(line.at("loss"));
    return losses;
  };
  const std::vector<double> found = masked_losses({});
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(masked_losses({"--mask-token-id", "4"}), found);
  EXPECT_NE(masked_losses({"--mask-token-id", "5"}), found);
  // Tokens that the tokenizer calls special need no flag.
  EXPECT_EQ(masked_losses({"--special-ids", "2"}), found);
}

TEST_F(SentencePairs, AreTheSameOnAnyRanksAndAfterAResume) {
  const std::vector<double> expected = losses({"--strategy", "none"});
  const auto expect_same = [&](const std::vector<double>& found) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 5e-5 * expected[i]) << i;
  };
  expect_same(losses({"-n", "2", "--workers", "2"}));
  // [CLS] and [SEP] are special anyway, and no text has padding.
  expect_same(losses({"--strategy", "none", "--special-ids", "0,2,3"}));
  expect_same(losses({"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "--accumulate", "2"}));
  expect_success(pre_training({"-n", "2", "--steps", "7", "--metrics", in("m"), "--output", in("s")}));
  expect_same(losses({"--strategy", "none", "--resume", in("s")}));
  EXPECT_TRUE(refuses(pre_training({"--steps", "12", "--resume", in("s"), "--seed", "7"}), 1,
                      {"next_sentence with seed 42, and masked_lm"}));
}

TEST_F(SentencePairs, AreLearnedAlone) {
  // At a constant rate the accuracy after single steps differs by a fifth.
  const Words falling = {"--lr", "0.003", "--lr-scheduler", "cosine_warmup", "--warmup-steps", "50"};
  const Words alone =
      Words{"train", "--model", in("bert"), "--architecture", "BertForNextSentencePrediction"} + falling +
      Words{"--data", in("texts"), "--held-out", "0.4", "--batch-size", "16"} +
      Words{"--strategy", "none", "--steps", "900", "--output", in("out")};
  expect_success(alone);
  const nlohmann::json training = evaluate("out", {"--held-out", "0.4", "--part", "train"}),
                       all = evaluate("out", {"-n", "2", "--batch-size", "6"});
  EXPECT_GT(training.at("accuracy"), 0.9);
  EXPECT_LT(training.at("samples"), all.at("samples"));
  EXPECT_EQ(all.at("samples"), all.at("labels"));
  EXPECT_NEAR(evaluate("out", {}).at("accuracy"), all.at("accuracy"), 1e-12);
}

}  // namespace
}  // namespace weft::test

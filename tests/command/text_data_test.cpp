// `weft train --data` of text with a tokenizer: what it refuses, that ranks and interruptions change nothing,
// and that a saved model has its tokenizer.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// Without dropout, whose numbers depend on the ranks; attention stays inside documents.
constexpr const char* kConfig = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 8, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_positions": 16, "use_cache": false,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0})";
constexpr const char* kTokenizer = R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "<eos>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "unk_token": "<unk>",
              "vocab": {"<eos>": 0, "<unk>": 1, "a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "f": 7}}})";

class TextData : public CommandTest {
 protected:
  void SetUp() override {
    fs::create_directory(in("words"));
    folder_.file("words/tokenizer.json", kTokenizer);
    folder_.file(
        "words/tokenizer_config.json",
        R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "unk_token": "<unk>"})");
    std::string pairs;
    for (int i = 0; i < 60; ++i)
      pairs += i % 2 == 0 ? R"({"prompt": "a b ", "completion": "c d"})"
                            "\n"
                          : R"({"text": "f e d c b a"})"
                            "\n";
    folder_.file("pairs.jsonl", pairs);
    fs::create_directory(in("texts"));
    for (const char* name : {"texts/1.txt", "texts/2.md"})
      folder_.file(name, "a b c d e f a b c d e f a b c d e f");
  }
  Words train_text(const Words& more) const {
    return Words{"train",  "--model",           config_, "--tokenizer", in("words"),
                 "--data", in("pairs.jsonl"),   "--lr",  "0.01",        "--batch-size",
                 "4",      "--sequence-length", "8"} +
           more;
  }
  std::vector<double> losses(const std::string& file) const {
    std::vector<double> losses;
    for (const nlohmann::json& line : read_metrics(in(file))) losses.push_back(line.at("loss"));
    return losses;
  }

  std::string config_ = folder_.file("gpt2.json", kConfig);
};

TEST_F(TextData, IsRefusedWhereFlagsDoNotFit) {
  EXPECT_TRUE(refuses({"train", "--model", config_, "--data", in("pairs.jsonl")}, 1,
                      {"vocabulary of 8", "no tokenizer", "--tokenizer"}));
  EXPECT_TRUE(
      refuses({"train", "--model", config_, "--data", data_, "--held-out", "0.1"}, 1, {"no tokenizer"}));
  EXPECT_TRUE(refuses(train_text({"--packing", "nome"}), 1, {"--packing", "nome", "did you mean \"none\""}));
  EXPECT_TRUE(refuses(train_text({"--held-out", "1"}), 1, {"--held-out is 1"}));
  EXPECT_TRUE(refuses(train_text({"--data", in("texts") + "=x"}), 1, {"weight is \"x\"", "PATH=0.3"}));
  EXPECT_TRUE(refuses(train_text({"--data", in("texts") + "=0.5"}), 1, {"a mixture", "a weight"}));
  folder_.file("bad.jsonl", "{\"text\": \"a\"}\n{\"text\"\n");
  EXPECT_TRUE(
      refuses(train_text({"--data", in("bad.jsonl"), "-n", "2"}), 1, {"bad.jsonl:2", "--skip-broken-lines"}));
  folder_.file("small.json", std::string(kConfig).replace(std::string(kConfig).find("8"), 1, "7"));
  EXPECT_TRUE(
      refuses({"train", "--model", in("small.json"), "--tokenizer", in("words"), "--data", in("texts")}, 1,
              {"up to 7", "0 to 6"}));
}

TEST_F(TextData, TrainsAndResumesAlikeOnAnyRanks) {
  for (const Words& how : {Words{"--data", in("texts")}, Words{"--packing", "none", "--held-out", "0.2"}}) {
    expect_success(train_text(how + Words{"--strategy", "none", "--steps", "8", "--metrics", in("m")}));
    const std::vector<double> expected = losses("m");
    ASSERT_EQ(expected.size(), 8u);
    expect_success(
        train_text(how + Words{"-n", "2", "--steps", "4", "--metrics", in("m"), "--output", in("s")}));
    expect_success(train_text(
        how + Words{"--strategy", "none", "--steps", "8", "--metrics", in("m"), "--resume", in("s")}));
    const std::vector<double> resumed = losses("m");
    ASSERT_EQ(resumed.size(), 8u);
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(resumed[i], expected[i], 2e-5 * expected[i]) << i;
  }
}

TEST_F(TextData, IsReadByTheSavedModelWithItsTokenizer) {
  expect_success(
      train_text({"--strategy", "none", "--steps", "2", "--output", in("out"), "--save-every", "1"}));
  for (const char* folder : {"out", "out/step-1"})
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      EXPECT_TRUE(fs::exists(in(folder) + "/" + file)) << folder << "/" << file;
  const auto labels = [&](const Words& more) {
    return nlohmann::json::parse(expect_success(Words{"evaluate", "--model", in("out"), "--data",
                                                      in("pairs.jsonl"), "--packing", "none", "--json"} +
                                                more)
                                     .out)
        .at("labels")
        .get<int64_t>();
  };
  // c d <eos> of each pair; e d c b a <eos> of each text.
  EXPECT_EQ(labels({}), 30 * 3 + 30 * 6);
  EXPECT_EQ(labels({"--held-out", "0.3"}) + labels({"--held-out", "0.3", "--part", "train"}), labels({}));
  expect_success({"train", "--model", in("out"), "--data", in("texts") + "=0.7", "--data",
                  in("pairs.jsonl") + "=0.3", "--steps", "2", "--sequence-length", "8", "--batch-size", "2",
                  "-n", "2"});
}

}  // namespace
}  // namespace weft::test

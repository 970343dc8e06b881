// `weft train --data` of text with a tokenizer: what it refuses, that ranks and interruptions change nothing,
// and that a saved model has its tokenizer.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "command/command.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// Without dropout, whose numbers depend on the ranks; attention stays inside documents.
constexpr const char* kConfig = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 8, "n_embd": 12, "n_layer": 1, "n_head": 2, "n_positions": 16,
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

TEST_F(TextData, SavesTheFurtherChatTemplatesOfItsTokenizer) {
  fs::create_directory(in("words/additional_chat_templates"));
  folder_.file("words/additional_chat_templates/tool_use.jinja", "{{ tools }}");
  const auto train = [&](const Words& more) {
    expect_success(
        train_text(more + Words{"--strategy", "none", "--output", in("out"), "--save-every", "1"}));
    for (const char* folder : {"out", "out/step-1"})
      EXPECT_TRUE(fs::exists(in(folder) + "/additional_chat_templates/tool_use.jinja")) << folder;
  };
  train({"--steps", "2"});
  // In place of what is there.
  fs::rename(in("words/additional_chat_templates/tool_use.jinja"),
             in("words/additional_chat_templates/rag.jinja"));
  folder_.file("words/additional_chat_templates/tool_use.jinja", "{{ messages }}");
  train({"--steps", "4", "--resume", in("out")});
  std::ifstream saved(in("out/additional_chat_templates/tool_use.jinja"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(saved), {}), "{{ messages }}");
  EXPECT_TRUE(fs::exists(in("out/additional_chat_templates/rag.jinja")));
}

// The third and fourth of eight samples make up a batch without a label.
TEST_F(TextData, GoesOnBehindABatchWithoutALabel) {
  RawTensors samples = language_samples(8, 6);
  std::vector<int64_t> labels(48);
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = i >= 12 && i < 24 ? -100 : static_cast<int64_t>(i * 7 % 250);
  samples["labels"] = int64_tensor({8, 6}, labels);
  const std::string data = folder_.file("some.safetensors", safetensors_bytes(samples));
  const auto train_some = [&](const Words& more) {
    return expect_success(Words{"train", "--model", CommandTest::config_, "--data", data, "--batch-size", "2",
                                "--no-shuffle", "--lr", "0.01", "--metrics", in("m")} +
                          more);
  };
  const std::string said = "no label of \"loss\" counts in the global batch";
  const Output output = train_some({"--strategy", "none", "--steps", "6"});
  const size_t first = output.error.find(said);
  EXPECT_NE(first, std::string::npos) << output.error;
  EXPECT_EQ(output.error.find(said, first + 1), std::string::npos) << "said twice";
  std::vector<double> expected;
  std::vector<int64_t> skipped;
  for (const nlohmann::json& line : read_metrics(in("m")))
    if (line.contains("skipped"))
      skipped.push_back(line.at("step"));
    else
      expected.push_back(line.at("loss"));
  EXPECT_EQ(skipped, (std::vector<int64_t>{2, 5}));
  ASSERT_EQ(expected.size(), 6u);
  // Two ranks, which stop in front of such a batch.
  train_some({"-n", "2", "--steps", "4", "--output", in("s")});
  train_some({"--strategy", "none", "--steps", "6", "--resume", in("s")});
  std::vector<double> resumed;
  for (const nlohmann::json& line : read_metrics(in("m")))
    if (!line.contains("skipped")) resumed.push_back(line.at("loss"));
  ASSERT_EQ(resumed.size(), 6u);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(resumed[i], expected[i], 2e-5 * expected[i]) << i;
}

TEST_F(TextData, HasTheLossOfTransformersForAnEncoderAndADecoder) {
  WEFT_NEEDS_ORACLE();
  const std::string command = oracle_python() + " " WEFT_TRAIN_TESTS "/text_pairs.py " + folder_.path();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(in("expected.json"));
  const auto expected = nlohmann::json::parse(file);
  for (const auto& [folder, length] :
       {std::pair("t5", "40"), std::pair("bare", "40"), std::pair("left", "12")})
    for (const char* packing : {"none", "documents"}) {
      const auto found = nlohmann::json::parse(
          expect_success({"evaluate", "--model", in(folder), "--data", in("pairs.jsonl"), "--packing",
                          packing, "--sequence-length", length, "--json"})
              .out);
      EXPECT_EQ(found.at("labels"), expected.at(folder).at("labels")) << folder;
      EXPECT_NEAR(found.at("loss").get<double>(), expected.at(folder).at("loss").get<double>(), 1e-5)
          << folder;
    }
}

// Attention stays inside a document, also with the "use_cache": true of this model.
TEST_F(TextData, HasTheLossOfTransformersForPackedDocuments) {
  fs::copy(WEFT_TRAIN_TESTS "/packed_documents", in("packed"));
  const auto evaluate = [&](const Words& more) {
    return nlohmann::json::parse(
        expect_success(Words{"evaluate", "--model", in("packed"), "--data", in("packed/documents.jsonl"),
                             "--sequence-length", "67", "--json"} +
                       more)
            .out);
  };
  const nlohmann::json found = evaluate({}), across = evaluate({"--attention", "sample"});
  EXPECT_EQ(found.at("labels"), 63);
  EXPECT_NEAR(found.at("loss").get<double>(), 6.008497, 1e-5);
  EXPECT_EQ(across.at("labels"), 63);
  EXPECT_GT(std::abs(across.at("loss").get<double>() - 6.008497), 1e-3);
  WEFT_NEEDS_ORACLE();
  const std::string command = oracle_python() + " " WEFT_TRAIN_TESTS "/packed_documents.py " + in("packed") +
                              " " + in("expected.json");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(in("expected.json"));
  const auto expected = nlohmann::json::parse(file);
  EXPECT_EQ(found.at("labels"), expected.at("labels"));
  EXPECT_NEAR(found.at("loss").get<double>(), expected.at("loss").get<double>(), 1e-5);
}

// On tensor-parallel ranks as well, of which each drops other weights.
TEST_F(TextData, DropsTheSameWeightsOfPackedDocumentsInARecomputation) {
  std::string config = kConfig;
  config.replace(config.find("\"attn_pdrop\": 0.0"), 17, "\"attn_pdrop\": 0.4");
  folder_.file("gpt2.json", config);
  for (const Words& how :
       {Words{"--strategy", "none"}, Words{"--strategy", "hybrid_parallel", "-o", "tp_size=2", "-n", "2"}}) {
    const auto trained = [&](const Words& more) {
      expect_success(train_text(how + more + Words{"--steps", "3", "--metrics", in("m")}));
      return losses("m");
    };
    const std::vector<double> expected = trained({});
    EXPECT_EQ(trained({"--recompute", "all"}), expected);
    EXPECT_NE(trained({"--attention", "sample"}), expected);
  }
}

TEST_F(TextData, RefusesAttentionWhereSamplesAreNoPackedDocuments) {
  for (const char* packing : {"none", "stream"})
    EXPECT_TRUE(refuses(train_text({"--attention", "document", "--packing", packing}), 1,
                        {"--attention", "--packing documents"}));
  EXPECT_TRUE(refuses(train_text({"--attention", "documents"}), 1, {"did you mean \"document\""}));
  const std::string tokens = folder_.file("tokens.bin", std::string(80, '\0'));
  EXPECT_TRUE(refuses({"train", "--model", config_, "--data", tokens, "--attention", "sample"}, 1,
                      {"--attention is for text"}));
  const std::string t5 = folder_.file("t5.json", R"({"model_type": "t5", "vocab_size": 8, "d_model": 12,
      "architectures": ["T5ForConditionalGeneration"], "d_kv": 6, "d_ff": 8, "num_layers": 1, "num_heads": 2,
      "pad_token_id": 0, "decoder_start_token_id": 0})");
  const Words t5_text = {"train",     "--model",           t5,  "--tokenizer", in("words"), "--data",
                         in("texts"), "--sequence-length", "8", "--steps",     "1"};
  EXPECT_TRUE(refuses(t5_text + Words{"--attention", "document"}, 1,
                      {"T5ForConditionalGeneration", "--packing none"}));
  EXPECT_THAT(expect_success(t5_text).error, testing::HasSubstr("--packing none"));
}

// A training state without "attention" is of a Weft in which attention reached the documents before, unless
// the configuration said that no cache is used.
TEST_F(TextData, ResumesWithTheAttentionThatItsTrainingBeganWith) {
  const auto state_of = [&](const char* folder) {
    std::ifstream file(in(folder) + "/training_state/state.json");
    return nlohmann::json::parse(file);
  };
  const auto of_version_before = [&](const char* folder) {
    nlohmann::json state = state_of(folder);
    state.at("data").erase("attention");
    folder_.file(std::string(folder) + "/training_state/state.json", state.dump());
  };
  const auto train = [&](const Words& more) {
    const Output output =
        expect_success(train_text(more + Words{"--strategy", "none", "--metrics", in("m")}));
    return std::pair(output.error, losses("m"));
  };
  const std::vector<double> across = train({"--steps", "6", "--attention", "sample"}).second,
                            inside = train({"--steps", "6"}).second;
  ASSERT_EQ(across.size(), 6u);
  EXPECT_GT(std::abs(across[5] - inside[5]), 1e-4);
  train({"--steps", "3", "--attention", "sample", "--output", in("old")});
  train({"--steps", "3", "--output", in("new")});
  EXPECT_EQ(state_of("old").at("data").at("attention"), "sample");
  EXPECT_EQ(state_of("new").at("data").at("attention"), "document");
  std::ifstream job(in("old/training_state/job.yaml"));
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(job), {}),
              testing::HasSubstr("attention: \"sample\""));

  const Words go_on = {"--steps", "6", "--resume"};
  const auto expect_last = [](const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), 6u);
    EXPECT_NEAR(found[5], expected[5], 1e-6 * expected[5]);
  };
  expect_last(train(go_on + Words{in("new")}).second, inside);
  expect_last(train(go_on + Words{in("old")}).second, across);
  of_version_before("old");
  const auto [said, resumed] = train(go_on + Words{in("old"), "--output", in("newer")});
  expect_last(resumed, across);
  EXPECT_THAT(said, testing::HasSubstr("--attention document"));
  EXPECT_EQ(state_of("newer").at("data").at("attention"), "sample");
  EXPECT_GT(std::abs(train(go_on + Words{in("old"), "--attention", "document"}).second[5] - across[5]), 1e-5);

  folder_.file("gpt2.json", std::string(kConfig).replace(std::string(kConfig).find("\"embd_pdrop"), 0,
                                                         "\"use_cache\": false, "));
  train({"--steps", "3", "--output", in("apart")});
  of_version_before("apart");
  const auto [silent, same] = train(go_on + Words{in("apart")});
  expect_last(same, inside);
  EXPECT_THAT(silent, testing::Not(testing::HasSubstr("--attention")));
}

}  // namespace
}  // namespace weft::test

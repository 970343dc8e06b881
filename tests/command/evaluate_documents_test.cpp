// `weft evaluate --by-document` is the loss of the windows of each document, on any ranks and strategy.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLength = 32;

class EvaluateDocuments : public CommandTest {
 protected:
  void SetUp() override {
    copy_trained_model();
    fs::create_directories(in("books/old"));
    folder_.file("books/long.txt", long_);
    folder_.file("books/old/short.md", "A short text.");
    folder_.file("books/lines.jsonl",
                 "{\"text\": \"" + std::string(kLength, 'e') + "\"}\n\n{\"text\": \"\"}\n" +
                     R"({"prompt": "two and two ", "completion": "is four"})" + "\n{\"text\": \"x\"}\n");
  }
  Words evaluate(const Words& more = {}) const {
    return Words{"evaluate", "--model", in("out"), "--by-document", "--data"} + more;
  }
  std::vector<nlohmann::json> lines(const Words& more) const {
    expect_success(evaluate(more) + Words{"--metrics", in("m")});
    return read_metrics(in("m"));
  }
  // Returns the mean loss of the bytes of `text` from `learned` on, whose windows are made here.
  double loss_of(const std::string& text, size_t learned = 1) {
    std::vector<int64_t> ids, labels;
    for (size_t begin = 0; begin + 1 < text.size(); begin += kLength - 1)
      for (size_t i = begin; i < begin + kLength; ++i) {
        const int64_t id = i < text.size() ? static_cast<unsigned char>(text[i]) : 7;
        ids.push_back(id);
        labels.push_back(i < text.size() && i > begin && i >= learned ? id : -100);
      }
    const auto rows = static_cast<int64_t>(ids.size()) / kLength;
    folder_.file("windows.safetensors",
                 safetensors_bytes({{"input_ids", int64_tensor({rows, kLength}, ids)},
                                    {"labels", int64_tensor({rows, kLength}, labels)}}));
    return nlohmann::json::parse(expect_success({"evaluate", "--model", in("out"), "--data",
                                                 in("windows.safetensors"), "--json"})
                                     .out)
        .at("loss");
  }

  const std::string long_ = sample_text(3 * kLength + 5, 3);
};

TEST_F(EvaluateDocuments, RefusesWhatHasNoDocumentsOrNoPerplexity) {
  folder_.file("tokens.bin", std::string(128, '\0'));
  folder_.file("samples.safetensors", safetensors_bytes(language_samples(3, 8)));
  EXPECT_TRUE(refuses(evaluate({in("tokens.bin")}), 1, {"--by-document", "tokens.bin"}));
  EXPECT_TRUE(
      refuses(evaluate({in("samples.safetensors"), "-n", "2"}), 1, {"--by-document", "samples.safetensors"}));
  EXPECT_TRUE(refuses(evaluate({in("books"), "--packing", "none"}), 1, {"--packing", "--by-document"}));
  EXPECT_TRUE(
      refuses(evaluate({in("books"), "--word-error-rate"}), 1, {"--word-error-rate", "--by-document"}));
  EXPECT_TRUE(refuses(evaluate({in("books") + "=0.5"}), 1, {"weight 0.5", "by itself"}));
  EXPECT_TRUE(refuses(evaluate({in("books"), "-n", "2", "--batch-size", "3"}), 1, {"be divided"}));
  EXPECT_TRUE(refuses(evaluate({in("books"), "--objective", "masked_lm"}), 1, {"by causal_lm"}));
  EXPECT_TRUE(refuses(evaluate({in("books"), "--mlm-probability", "0.5"}), 1, {"--mlm-probability"}));
  const std::string classifier = "GPT2ForSequenceClassification";
  for (const char* ranks : {"1", "2"})
    EXPECT_TRUE(refuses(evaluate({in("books"), "--architecture", classifier, "--allow-missing", "-n", ranks}),
                        1, {"--by-document", classifier}));
  folder_.file("bert.json", R"({"model_type": "bert", "architectures": ["BertForMaskedLM"],
      "vocab_size": 256, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
      "num_attention_heads": 3, "max_position_embeddings": 32, "pad_token_id": 7})");
  EXPECT_TRUE(refuses(
      {"evaluate", "--model", in("bert.json"), "--allow-missing", "--by-document", "--data", in("books")}, 1,
      {"BertForMaskedLM", "next token"}));
}

TEST_F(EvaluateDocuments, IsTheLossOfEachTokenFromItsWindow) {
  const std::vector<nlohmann::json> found = lines({in("books")});
  ASSERT_EQ(found.size(), 6u);
  struct Expected {
    const char* file;
    int64_t line, tokens;
    double loss;
  };
  const Expected expected[] = {
      {"books/lines.jsonl", 1, kLength - 1, loss_of(std::string(kLength, 'e'))},
      {"books/lines.jsonl", 4, 7, loss_of("two and two is four", 12)},
      {"books/lines.jsonl", 5, 0, 0},
      {"books/long.txt", 0, 3 * kLength + 4, loss_of(long_)},
      {"books/old/short.md", 0, 12, loss_of("A short text.")},
  };
  double sum = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < std::size(expected); ++i) {
    const nlohmann::json& line = found[i];
    EXPECT_EQ(line.at("file"), in(expected[i].file));
    EXPECT_EQ(line.value("line", int64_t{0}), expected[i].line);
    ASSERT_EQ(line.at("tokens"), expected[i].tokens) << expected[i].file;
    tokens += expected[i].tokens;
    EXPECT_EQ(line.contains("perplexity"), expected[i].tokens > 0);
    if (expected[i].tokens == 0) continue;
    const double loss = line.at("loss");
    EXPECT_NEAR(loss, expected[i].loss, 1e-6 * expected[i].loss) << expected[i].file;
    EXPECT_NEAR(line.at("perplexity"), std::exp(loss), 1e-9 * std::exp(loss));
    sum += loss * static_cast<double>(expected[i].tokens);
  }
  const nlohmann::json& all = found.back();
  EXPECT_EQ(all.at("documents"), 5);
  EXPECT_EQ(all.at("samples"), 1 + 1 + 4 + 1);
  EXPECT_EQ(all.at("tokens"), tokens);
  EXPECT_NEAR(all.at("loss"), sum / static_cast<double>(tokens), 1e-9);
}

TEST_F(EvaluateDocuments, IsTheSameOnRanksAndUnderEveryStrategy) {
  const std::vector<nlohmann::json> expected = lines({in("books")});
  for (const Words& more :
       {Words{"--batch-size", "1"}, Words{"-n", "3"}, Words{"-n", "2", "--batch-size", "6", "--workers", "1"},
        Words{"-n", "2", "--strategy", "torch_fsdp"}, Words{"-n", "2", "-o", "tp_size=2"},
        Words{"-n", "2", "-o", "pp_size=2"}, Words{"-n", "4", "-o", "pp_size=2", "-o", "num_microbatches=3"},
        Words{"-n", "4", "-o", "tp_size=2", "-o", "pp_size=2", "-o", "microbatch_size=1"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "sp_size=2", "-o",
              "enable_sequence_parallelism=true"}}) {
    const std::vector<nlohmann::json> found = lines(Words{in("books")} + more);
    ASSERT_EQ(found.size(), expected.size()) << testing::PrintToString(more);
    for (size_t i = 0; i < found.size(); ++i) {
      for (const char* same : {"file", "line", "tokens", "documents", "samples"})
        EXPECT_EQ(found[i].value(same, nlohmann::json()), expected[i].value(same, nlohmann::json()));
      EXPECT_NEAR(found[i].value("loss", 0.0), expected[i].value("loss", 0.0), 1e-6)
          << i << testing::PrintToString(more);
    }
  }
}

TEST_F(EvaluateDocuments, ReadsTheDocumentsOfAPartAndOfSeveralSources) {
  const std::vector<nlohmann::json> all = lines({in("books"), "--data", in("books/old/*.md")});
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all[5].at("file"), in("books/old/short.md"));
  EXPECT_EQ(all[5].at("loss"), all[4].at("loss"));
  const Words part = {in("books"), "--held-out", "0.5", "--part"};
  std::vector<nlohmann::json> parts;
  for (const char* name : {"train", "held-out"}) {
    const std::vector<nlohmann::json> found = lines(part + Words{name});
    parts.insert(parts.end(), found.begin(), found.end() - 1);
  }
  EXPECT_EQ(parts.size(), 5u);
  EXPECT_EQ(lines({in("books"), "--long-documents", "drop"}).back().at("documents"), 4);
}

TEST_F(EvaluateDocuments, PrintsATableOrLinesOfJson) {
  const Output table = expect_success(evaluate({in("books")}));
  EXPECT_THAT(table.out, testing::StartsWith("    tokens      loss    perplexity  document\n"));
  EXPECT_THAT(table.out,
              testing::HasSubstr("         0         -             -  " + in("books/lines.jsonl:5")));
  EXPECT_THAT(table.out, testing::HasSubstr("  all 5 documents (7 samples)\n"));
  const Output json = expect_success(evaluate({in("books"), "--json", "--metrics", in("m"), "-n", "2"}));
  EXPECT_EQ(json.out, read_bytes(in("m")));
}

// One text file of a model whose tokens are bytes is one document, too.
TEST_F(EvaluateDocuments, TakesOneFileAsOneDocument) {
  const std::vector<nlohmann::json> found = lines({in("books/long.txt")});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].at("file"), in("books/long.txt"));
  EXPECT_EQ(found[0].at("tokens"), 3 * kLength + 4);
}

}  // namespace
}  // namespace weft::test

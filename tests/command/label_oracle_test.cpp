// Labels of words and of parts of texts, and classifiers against transformers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "command/label_fixture.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

TEST_F(LabelCommand, TagsWords) {
  std::string lines;
  std::mt19937 draw(5);
  for (int i = 0; i < 60; ++i) {
    json words = json::array(), tags = json::array();
    for (int count = 1 + static_cast<int>(draw() % 9); count > 0; --count) {
      const size_t word = draw() % std::size(kWords);
      words.push_back(kWords[word]);
      tags.push_back(word < 2 ? "B-UP" : word < 4 ? "B-DOWN" : "O");
    }
    lines += json{{"words", words}, {"tags", tags}}.dump() + "\n";
  }
  folder_.file("tags.jsonl", lines);
  const Words tagger = {"--architecture", "BertForTokenClassification", "--tokens-column", "words"};
  EXPECT_TRUE(refuses(train(on("rows.csv", tagger)), 1, {"rows.csv:2: ", "label, text", "--tokens-column"}));
  EXPECT_TRUE(refuses(train(on("rows.csv", {"--label-subwords", "all"})), 1, {"--label-subwords is for"}));
  folder_.file("short.jsonl", "{\"words\": [\"good\", \"bad\"], \"tags\": [\"O\"]}\n");
  EXPECT_TRUE(refuses(train(on("short.jsonl", tagger)), 1, {"short.jsonl:1: ", "1 tags", "2 words"}));
  expect_success(train(on(
      "tags.jsonl", tagger + Words{"--epochs", "10", "--class-weights", "balanced", "--output", in("out")})));
  EXPECT_EQ(config().at("label2id"), (json{{"B-DOWN", 0}, {"B-UP", 1}, {"O", 2}}));
  const Words read = on("tags.jsonl", {"--tokens-column", "words"});
  const json alone = evaluate(read);
  EXPECT_GT(alone.at("accuracy"), 0.9);
  EXPECT_GT(alone.at("entity_f1"), 0.8);
  const std::vector<json> predicted = predict(read);
  const std::vector<json> rows = json_lines(lines);
  ASSERT_EQ(predicted.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(predicted[i].at("tags").size(), rows[i].at("words").size());
  for (const Words& more :
       {Words{"-n", "3", "--batch-size", "9", "--strategy", "torch_ddp"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o", "num_microbatches=2"}}) {
    const json found = evaluate(read + more);
    for (const char* same : {"accuracy", "entity_f1", "f1_macro", "labels"})
      EXPECT_EQ(found.at(same), alone.at(same));
    const std::vector<json> own = predict(read + more);
    ASSERT_EQ(own.size(), predicted.size());
    for (size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].at("tags"), predicted[i].at("tags")) << i;
  }
  const std::vector<json> cut = predict(read + Words{"--sequence-length", "4"});
  for (size_t i = 0; i < cut.size(); ++i)
    for (size_t word = 0; word < cut[i].at("tags").size(); ++word)
      EXPECT_EQ(cut[i].at("tags")[word].is_null(), word >= 2) << i;
}

TEST_F(LabelCommand, FindsPartsOfTexts) {
  std::string lines;
  for (const Row& row : make_rows(60, {"up", "down"})) {
    const json span = {{"start", 0},
                       {"end", row.text.find(' ') == row.text.npos ? row.text.size() : row.text.find(' ')},
                       {"label", row.label}};
    lines += json{{"text", row.text}, {"spans", json::array({span})}}.dump() + "\n";
  }
  folder_.file("spans.jsonl", lines);
  const Words tagger = {"--architecture", "BertForTokenClassification", "--output", in("out")};
  expect_success(train(on("spans.jsonl", tagger + Words{"--epochs", "10"})));
  EXPECT_EQ(config().at("id2label"),
            (json{{"0", "B-down"}, {"1", "B-up"}, {"2", "I-down"}, {"3", "I-up"}, {"4", "O"}}));
  const json found = evaluate(on("spans.jsonl"));
  EXPECT_GT(found.at("entity_f1"), 0.9);
  const std::vector<json> predicted = predict(on("spans.jsonl", {"-n", "2", "--batch-size", "6"}));
  const std::vector<json> rows = json_lines(lines);
  ASSERT_EQ(predicted.size(), rows.size());
  int right = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    json spans = predicted[i].at("spans");
    for (json& span : spans) span.erase("probability");
    right += spans == rows[i].at("spans") ? 1 : 0;
  }
  EXPECT_GT(right, 50);
}

// The last word of the last row is cut off, so that its label does not count.
TEST_F(LabelCommand, BalancesTheTagsOfSpans) {
  const auto line = [](const std::string& text, int64_t end, const std::string& label) {
    return json{{"text", text}, {"spans", json::array({{{"start", 0}, {"end", end}, {"label", label}}})}}
               .dump() +
           "\n";
  };
  folder_.file("few.jsonl", line("good fine the", 9, "up") + line("good the", 4, "up") +
                                line("bad the", 3, "down") + line("fine the was film and", 4, "up"));
  // B-down has 1 label, B-up 3, I-down none, I-up 1, and O 6.
  const double labels = 11, classes = 5;
  folder_.file("weights.json", json{{"B-down", labels / classes},
                                    {"B-up", labels / (3 * classes)},
                                    {"I-down", 1},
                                    {"I-up", labels / classes},
                                    {"O", labels / (6 * classes)}}
                                   .dump());
  const auto loss = [&](const std::string& weights) {
    fs::remove(in("m"));
    expect_success(train(on("few.jsonl", {"--architecture", "BertForTokenClassification", "--class-weights",
                                          weights, "--sequence-length", "6", "--steps", "1", "--batch-size",
                                          "4", "--no-shuffle", "--metrics", in("m")})));
    return read_metrics(in("m")).at(0).at("loss").get<double>();
  };
  const double found = loss("balanced");
  EXPECT_EQ(found, loss(in("weights.json")));
  folder_.file("weights.json", json{{"B-down", 1}, {"B-up", 1}, {"I-down", 1}, {"I-up", 1}, {"O", 1}}.dump());
  EXPECT_GT(std::abs(found - loss(in("weights.json"))), 1e-3);
}

class LabelOracle : public LabelCommand {
 protected:
  // Runs Python once for all tests of the process.
  void SetUp() override {
    WEFT_NEEDS_ORACLE();
    static const TemporaryFolder made;
    static const int status = [] {
      const std::string command = oracle_python() + " " WEFT_LABELS_ORACLE " " + made.path();
      return std::system((command + " 2> " + made.path() + "/log").c_str());
    }();
    ASSERT_EQ(status, 0);
    fs::copy(made.path(), folder_.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
};

TEST_F(LabelOracle, LossesAndPredictionsAreThoseOfTransformers) {
  for (const std::string family : {"bert", "opt", "llama"})
    for (const std::string folder : {"rows", "pairs", "scores", "several", "rows_left", "pairs_left"}) {
      const std::string kind = folder.substr(0, folder.find('_')), model = family + "/" + folder;
      const std::string file = kind + (kind == "rows" ? ".csv" : kind == "scores" ? ".tsv" : ".jsonl");
      const json expected = json::parse(read_whole(in(model + "/expected.json")));
      Words flags = on(file, {"--sequence-length", "20", "--batch-size", "4"});
      if (kind == "pairs") flags = flags + Words{"--text-column", "first", "--second-text-column", "second"};
      EXPECT_NEAR(evaluate(flags, model).at("loss"), expected.at("loss"), 2e-5) << model;
      const std::vector<json> lines = predict(flags, model);
      ASSERT_EQ(lines.size(), expected.at("logits").size());
      for (size_t i = 0; i < lines.size(); ++i) {
        const auto logits = expected.at("logits")[i].get<std::vector<double>>();
        const auto best = std::max_element(logits.begin(), logits.end());
        double sum = 0;
        for (const double logit : logits) sum += std::exp(logit - *best);
        if (kind == "scores") EXPECT_NEAR(lines[i].at("value"), logits[0], 2e-5);
        if (kind == "rows") EXPECT_NEAR(lines[i].at("probability"), 1 / sum, 2e-5) << model << " " << i;
        if (kind == "several")
          EXPECT_EQ(lines[i].at("label").size(),
                    std::count_if(logits.begin(), logits.end(), [](double logit) { return logit > 0; }));
      }
      if (folder != "rows") continue;
      fs::remove(in("m"));
      const Words weighted = {
          "--steps",          "1",         "--lr",  "0",        "--no-shuffle", "--class-weights",
          in("weights.json"), "--metrics", in("m"), "--output", in("trained")};
      expect_success(train(flags + weighted + Words{"--strategy", "torch_ddp", "-n", "2"}, model));
      EXPECT_NEAR(read_metrics(in("m")).at(0).at("loss"), expected.at("weighted"), 2e-5) << model;
      // A Llama without a token for padding gets the one that also ends its texts.
      EXPECT_EQ(config("trained").at("pad_token_id"), family == "bert" ? 0 : family == "opt" ? 2 : 1);
      EXPECT_NEAR(evaluate(flags, "trained").at("loss"), expected.at("loss"), 2e-5) << model;
      fs::remove_all(in("trained"));
    }
}

TEST_F(LabelOracle, TagsAreThoseOfTransformers) {
  for (const std::string model :
       {"bert/tags", "llama/tags", "t5/tags", "bert/tags_left", "llama/tags_left", "t5/tags_left"})
    for (const std::string subwords : {"first", "all"}) {
      const json expected = json::parse(read_whole(in(model + "/expected.json"))).at(subwords);
      const Words flags = on("tags.jsonl", {"--sequence-length", "20", "--batch-size", "4"});
      const json found = evaluate(flags + Words{"--label-subwords", subwords}, model);
      EXPECT_NEAR(found.at("loss"), expected.at("loss"), 2e-5) << model << subwords;
      EXPECT_EQ(found.at("labels"), expected.at("labels")) << model << subwords;
      const std::vector<json> lines = predict(flags, model);
      ASSERT_EQ(lines.size(), expected.at("predicted").size());
      for (size_t i = 0; i < lines.size(); ++i)
        EXPECT_EQ(lines[i].at("tags"), expected.at("predicted")[i]) << model << " " << i;
    }
}

// The encoder of a T5, on tags and in every layout that divides it.
TEST_F(LabelOracle, TagsWithT5InEveryLayout) {
  const Words flags = on("tags.jsonl", {"--sequence-length", "20", "--batch-size", "4"});
  const auto losses = [&](const Words& more) {
    fs::remove(in("m"));
    expect_success(train(flags +
                             Words{"--steps", "3", "--no-shuffle", "--pad-to-multiple-of", "4", "--metrics",
                                   in("m"), "--output", in("trained")} +
                             more,
                         "t5/tags"));
    std::vector<double> found;
    for (const json& line : read_metrics(in("m"))) found.push_back(line.at("loss"));
    return found;
  };
  const std::vector<double> expected = losses({"--strategy", "none"});
  ASSERT_EQ(expected.size(), 3u);
  const json alone = evaluate(flags, "trained");
  EXPECT_LT(alone.at("loss"), expected[0]);
  for (const Words& more :
       {Words{"-n", "2", "--strategy", "torch_ddp"}, Words{"-n", "2", "--strategy", "torch_fsdp"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o", "num_microbatches=2", "-o",
              "zero_stage=1"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o",
              "enable_sequence_parallelism=true", "-o", "sequence_parallelism_mode=split_gather"}}) {
    const std::vector<double> found = losses(more);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 2e-5) << testing::PrintToString(more) << " " << i;
    EXPECT_NEAR(evaluate(flags, "trained").at("loss"), alone.at("loss"), 2e-4);
  }
}

}  // namespace
}  // namespace weft::test

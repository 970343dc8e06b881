// `weft train`, `evaluate` and `predict` on rows with labels.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "command/label_fixture.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;

TEST_F(LabelCommand, RefusesWhatHasNoEffectAndDataThatItCannotRead) {
  const Words train = this->train(on("rows.csv", {"--steps", "1"}));
  EXPECT_TRUE(refuses(train + Words{"--packing", "none"}, 1, {"--packing is for text"}));
  EXPECT_TRUE(refuses(train + Words{"--objective", "causal_lm"}, 1, {"--objective is for text"}));
  EXPECT_TRUE(refuses(train + Words{"--bytes"}, 1, {"--bytes is for text"}));
  EXPECT_TRUE(refuses(train + Words{"--problem", "regression"}, 1, {"rows.csv:2: ", "is no number"}));
  EXPECT_TRUE(refuses(train + Words{"--problem", "classes"}, 1, {"--problem is \"classes\""}));
  EXPECT_TRUE(refuses(train + Words{"--label-column", "lable"}, 1, {"rows.csv:2: ", "label, text"}));
  EXPECT_TRUE(refuses(train + Words{"--sequence-length", "2"}, 1, {"sequence length is 2", "at least 3"}));
  EXPECT_TRUE(refuses(train + Words{"--sequence-length", "17"}, 1, {"--sequence-length is 17"}));
  EXPECT_TRUE(refuses(train + Words{"--held-out", "0.0001", "--part", "train"}, 2, {"--part"}));
  EXPECT_TRUE(refuses(this->train({"--data", in("rows.csv") + "=0.5"}), 1, {"a weight is for text"}));
  EXPECT_TRUE(refuses(train + Words{"--class-weights", in("none.json")}, 1, {"none.json"}));
  for (const auto& [weights, says] : {std::pair(R"({"pos": 1, "neg": 2})", "\"odd\" has no weight"),
                                      std::pair(R"({"pos": 1, "neg": 2, "odd": -1})", "at least 0"),
                                      std::pair(R"({"pos": 0, "neg": 0, "odd": 0})", "all weights are 0"),
                                      std::pair(R"({"pos": 1, "nag": 2, "odd": 1})", "did you mean \"neg\""),
                                      std::pair("[1, 2, 3]", "must be an object")})
    EXPECT_TRUE(refuses(train + Words{"--class-weights", folder_.file("w.json", weights)}, 1, {says}));
  folder_.file("one.csv", "text,label\ngood,a\nbad,a\n");
  EXPECT_TRUE(refuses(this->train(on("one.csv")), 1, {"two classes"}));
  folder_.file("scores.csv", "text,label\ngood,0.5\nbad,-1\n");
  EXPECT_TRUE(refuses(this->train(on("scores.csv", {"--class-weights", "balanced"})), 1, {"are numbers"}));
  folder_.file("broken.csv", "text,label\ngood,a\nbad\nfine,b\n");
  for (const char* ranks : {"1", "2"})
    EXPECT_TRUE(refuses({"train", "--model", in("bert"), "--data", in("broken.csv"), "-n", ranks}, 1,
                        {"broken.csv:3: ", "1 fields"}));
  EXPECT_TRUE(
      refuses(this->train(on("rows.csv", {"--architecture", "BertForMaskedLM", "--label-column", "x"})), 1,
              {"--label-column is for labels"}));
  EXPECT_TRUE(refuses(this->train(on("rows.csv", {"--architecture", "BertModel"})), 1,
                      {"ForSequenceClassification"}));
  EXPECT_TRUE(refuses({"predict", "--model", in("bert"), "--data", in("rows.csv")}, 1, {"no weights"}));
  fs::remove(in("bert/tokenizer.json"));
  EXPECT_TRUE(refuses(train, 1, {"no tokenizer", "--tokenizer"}));
}

TEST_F(LabelCommand, LearnsNamesAndWritesThemToTheConfiguration) {
  copy_model_of_rows();
  const json saved = config();
  EXPECT_EQ(saved.at("id2label"), (json{{"0", "neg"}, {"1", "odd"}, {"2", "pos"}}));
  EXPECT_EQ(saved.at("label2id"), (json{{"neg", 0}, {"odd", 1}, {"pos", 2}}));
  EXPECT_EQ(saved.at("problem_type"), "single_label_classification");
  const std::vector<Row> rows = make_rows(61, {"pos", "neg", "odd"});
  const json found = evaluate(on("rows.csv"));
  EXPECT_EQ(found.at("samples"), 61);
  EXPECT_EQ(found.at("labels"), 61);
  EXPECT_GT(found.at("accuracy"), 0.9);
  EXPECT_EQ(found.at("f1_micro"), found.at("accuracy"));
  EXPECT_GT(found.at("matthews"), 0.8);
  const std::vector<json> lines = predict(on("rows.csv"));
  ASSERT_EQ(lines.size(), rows.size());
  double right = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    right += lines[i].at("label") == rows[i].label ? 1 : 0;
    EXPECT_GT(lines[i].at("probability"), 1.0 / 3);
    EXPECT_LE(lines[i].at("probability"), 1.0);
  }
  EXPECT_NEAR(right / 61, found.at("accuracy"), 1e-9);
  // Rows to predict need no label, and the file appears under --output.
  folder_.file("bare.jsonl",
               "{\"sentence\": \"bad film\"}\n{\"sentence\": \"good and the film was fine and good\"}\n");
  const Output output =
      expect_success({"predict", "--model", in("out"), "--data", in("bare.jsonl"), "--text-column",
                      "sentence", "--sequence-length", "6", "--output", in("labels.jsonl")});
  EXPECT_EQ(output.out, "");
  EXPECT_THAT(output.error, HasSubstr("1 of 2 texts are truncated"));
  const std::vector<json> two = json_lines(read_whole(in("labels.jsonl")));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].at("label"), "neg");
  EXPECT_EQ(two[1].at("label"), "pos");
  EXPECT_TRUE(refuses({"predict", "--model", in("out"), "--data", in("bare.jsonl")}, 1,
                      {"bare.jsonl:1: ", "sentence", "--text-column"}));
  EXPECT_TRUE(refuses({"predict", "--model", in("out"), "--data", in("rows.csv"), "--output", in("rows.csv")},
                      1, {"rows.csv", "overwrite"}));
  // A class that the model does not have.
  folder_.file("more.csv", "text,label\ngood,pos\nodd,even\n");
  for (const char* ranks : {"1", "2"})
    EXPECT_TRUE(refuses({"evaluate", "--model", in("out"), "--data", in("more.csv"), "-n", ranks}, 1,
                        {"more.csv:3: ", "\"even\"", "neg, odd, pos"}));
}

TEST_F(LabelCommand, TakesTheClassesOfAHeadOrMakesANewOne) {
  copy_model_of_rows();
  const std::vector<json> before = predict(on("rows.csv"));
  const Words nothing = on("rows.csv", {"--steps", "1", "--lr", "0", "--output", in("again")});
  // In the order of the folder, whatever that is.
  set_config("out", {{"id2label", {{"0", "odd"}, {"1", "pos"}, {"2", "neg"}}},
                     {"label2id", {{"odd", 0}, {"pos", 1}, {"neg", 2}}}});
  expect_success(train(nothing, "out"));
  EXPECT_EQ(config("again").at("id2label"), config("out").at("id2label"));
  const std::vector<json> renamed = predict(on("rows.csv"), "again");
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(renamed[i].at("probability"), before[i].at("probability"));
  EXPECT_NE(renamed, before);
  // Names that were made up are replaced.
  set_config("out", {{"id2label", {{"0", "LABEL_0"}, {"1", "LABEL_1"}, {"2", "LABEL_2"}}},
                     {"label2id", {{"LABEL_0", 0}, {"LABEL_1", 1}, {"LABEL_2", 2}}}});
  expect_success(train(nothing, "out"));
  EXPECT_EQ(config("again").at("id2label"), (json{{"0", "neg"}, {"1", "odd"}, {"2", "pos"}}));
  EXPECT_EQ(predict(on("rows.csv"), "again"), before);
  // Other classes need a new head.
  folder_.file("two.csv", csv(make_rows(20, {"yes", "no"})));
  EXPECT_TRUE(
      refuses(train(on("two.csv", {"--steps", "1"}), "out"), 1, {"2 classes (no, yes)", "--new-head"}));
  folder_.file("three.csv", csv(make_rows(20, {"yes", "no", "maybe"})));
  EXPECT_TRUE(refuses(train(on("three.csv", {"--steps", "1"}), "again"), 1,
                      {"maybe, no, yes", "neg, odd, pos", "--new-head"}));
  folder_.file("scores.csv", "text,label\ngood,0.5\nbad,-1\n");
  EXPECT_TRUE(refuses(train(on("scores.csv"), "out"), 1, {"scores.csv", "0.5"}));
  expect_success(train(on("two.csv", {"--steps", "30", "--new-head", "--output", in("new")}), "out"));
  EXPECT_EQ(config("new").at("id2label"), (json{{"0", "no"}, {"1", "yes"}}));
  EXPECT_GT(evaluate(on("two.csv"), "new").at("accuracy"), 0.6);
  // Integers stand for classes that have names.
  folder_.file("ids.jsonl", "{\"text\": \"good\", \"label\": 2}\n{\"text\": \"bad\", \"label\": 0}\n");
  expect_success(train(
      on("ids.jsonl", {"--steps", "1", "--lr", "0", "--batch-size", "2", "--output", in("ids")}), "again"));
  EXPECT_EQ(config("ids").at("id2label"), config("again").at("id2label"));
  EXPECT_EQ(evaluate(on("ids.jsonl"), "again").at("accuracy"), 1);
}

TEST_F(LabelCommand, HasTheClassesOfRowsThatAreHeldOut) {
  folder_.file("rare.csv", csv(make_rows(20, {"pos", "neg"})) + "rare,odd film\n");
  expect_success(train(on("rare.csv", {"--steps", "1", "--held-out", "0.9", "--output", in("out")})));
  EXPECT_EQ(config().at("label2id"), (json{{"neg", 0}, {"pos", 1}, {"rare", 2}}));
}

TEST_F(LabelCommand, LearnsNumbersAndSeveralLabels) {
  std::string scores = "text\tlabel\n", several;
  for (const Row& row : make_rows(60, {"1", "0", "2"})) {
    scores += row.text + "\t" + row.label + ".5\n";
    json labels = json::array();
    if (row.label != "0") labels.push_back("some");
    if (row.label == "2") labels.push_back("many");
    several += json{{"text", row.text}, {"label", labels}}.dump() + "\n";
  }
  folder_.file("scores.tsv", scores);
  folder_.file("several.jsonl", several);
  expect_success(train(on("scores.tsv", {"--epochs", "20", "--output", in("scores")})));
  EXPECT_EQ(config("scores").at("problem_type"), "regression");
  EXPECT_EQ(config("scores").at("id2label").size(), 1u);
  const json found = evaluate(on("scores.tsv"), "scores");
  EXPECT_LT(found.at("mse"), 0.2);
  EXPECT_NEAR(found.at("mse"), found.at("loss"), 1e-4);
  EXPECT_GT(found.at("pearson"), 0.9);
  EXPECT_GT(found.at("spearman"), 0.8);
  EXPECT_FALSE(found.contains("accuracy"));
  EXPECT_TRUE(predict(on("scores.tsv"), "scores").at(0).at("value").is_number());
  // The same number everywhere correlates with nothing.
  folder_.file("same.csv", "text,label\ngood,1\nbad,1\n");
  EXPECT_TRUE(evaluate(on("same.csv"), "scores").at("pearson").is_null());
  EXPECT_THAT(expect_success({"evaluate", "--model", in("scores"), "--data", in("same.csv")}).out,
              HasSubstr("pearson undefined"));

  expect_success(train(
      on("several.jsonl", {"--epochs", "8", "--class-weights", "balanced", "--output", in("several")})));
  EXPECT_EQ(config("several").at("problem_type"), "multi_label_classification");
  EXPECT_EQ(config("several").at("label2id"), (json{{"many", 0}, {"some", 1}}));
  EXPECT_GT(evaluate(on("several.jsonl"), "several").at("accuracy"), 0.8);
  for (const json& line : predict(on("several.jsonl"), "several")) {
    EXPECT_EQ(line.at("label").size(), line.at("probability").size());
    for (const json& probability : line.at("probability")) EXPECT_GT(probability, 0.5);
  }
}

TEST_F(LabelCommand, LearnsAndMeasuresTheSameOnRanksAndUnderEveryStrategy) {
  copy_model_of_rows();
  // Of 61 samples the last batch of 8 leaves ranks without one.
  const Words flags = on("rows.csv", {"--batch-size", "12", "--steps", "6", "--class-weights", "balanced",
                                      "--held-out", "0.2", "--max-grad-norm", "1"});
  const auto losses = [&](Words more) {
    fs::remove(in("m"));
    if (more.empty()) more = {"--strategy", "none"};
    expect_success(Words{"train", "--model", in("bert"), "--lr", "0.003", "--metrics", in("m")} + flags +
                   more);
    std::vector<double> values;
    for (const json& line : read_metrics(in("m"))) {
      values.push_back(line.at("loss"));
      values.push_back(line.at("grad_norm"));
    }
    return values;
  };
  const std::vector<double> alone = losses({});
  ASSERT_EQ(alone.size(), 12u);
  const json measured = evaluate(on("rows.csv"));
  const std::vector<json> predicted = predict(on("rows.csv"));
  for (const Words& more :
       {Words{"-n", "2", "--strategy", "torch_ddp"}, Words{"-n", "3", "--strategy", "torch_fsdp"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o", "microbatch_size=2"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "sp_size=2", "-o",
              "enable_sequence_parallelism=true", "--pad-to-multiple-of", "4"}}) {
    const std::vector<double> found = losses(more);
    ASSERT_EQ(found.size(), alone.size()) << testing::PrintToString(more);
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(found[i], alone[i], 2e-4 * std::max(1.0, alone[i]))
          << testing::PrintToString(more) << " " << i;
    const json own = evaluate(on("rows.csv", more));
    for (const char* same : {"accuracy", "f1_macro", "f1_micro", "matthews", "samples", "labels"})
      EXPECT_EQ(own.at(same), measured.at(same)) << testing::PrintToString(more);
    EXPECT_NEAR(own.at("loss"), measured.at("loss"), 1e-5);
    const std::vector<json> lines = predict(on("rows.csv", more));
    ASSERT_EQ(lines.size(), predicted.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].at("label"), predicted[i].at("label"));
      EXPECT_NEAR(lines[i].at("probability"), predicted[i].at("probability"), 1e-5);
    }
  }
}

TEST_F(LabelCommand, MeasuresCorrelationsOfAllRanks) {
  std::string scores = "text,label\n";
  for (const Row& row : make_rows(23, {"1", "0", "2"})) scores += row.text + "," + row.label + ".25\n";
  folder_.file("scores.csv", scores);
  expect_success(train(on("scores.csv", {"--steps", "3", "--output", in("out")})));
  const json alone = evaluate(on("scores.csv", {"--batch-size", "23"}));
  for (const Words& more :
       {Words{"--batch-size", "5"}, Words{"-n", "3", "--batch-size", "9", "--strategy", "torch_ddp"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o", "num_microbatches=2"}}) {
    const json found = evaluate(on("scores.csv", more));
    for (const char* same : {"mse", "pearson", "spearman"})
      EXPECT_NEAR(found.at(same), alone.at(same), 1e-5) << testing::PrintToString(more) << same;
  }
}

TEST_F(LabelCommand, ResumesWithinAnEpochWithTheSameBits) {
  const Words flags = on("rows.csv", {"--batch-size", "8", "--class-weights", "balanced"});
  const auto run = [&](const Words& more, const std::string& output) {
    expect_success(train(flags + more + Words{"--output", in(output), "--metrics", in(output + ".m")}));
  };
  run({"--steps", "19"}, "whole");  // an epoch has 8 steps
  run({"--steps", "11"}, "half");
  expect_success(train(flags + Words{"--steps", "19", "--resume", in("half"), "--output", in("rest"),
                                     "--metrics", in("half.m")}));
  EXPECT_EQ(read_whole(in("rest/model.safetensors")), read_whole(in("whole/model.safetensors")));
  EXPECT_EQ(config("rest"), config("whole"));
  const auto whole = read_metrics(in("whole.m")), both = read_metrics(in("half.m"));
  ASSERT_EQ(whole.size(), both.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].at("loss"), both[i].at("loss")) << i;
}

}  // namespace
}  // namespace weft::test

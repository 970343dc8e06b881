// `weft train --evaluate-every`: what it finds is what `weft evaluate` finds, and it changes nothing that is
// trained.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class EvaluationInTraining : public CommandTest {
 protected:
  // The evaluation that each step has, or null.
  static std::vector<nlohmann::json> evaluations(const std::string& path) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& line : read_metrics(path))
      found.push_back(line.value("evaluation", nlohmann::json()));
    return found;
  }
  const std::string other_ = folder_.file("other.txt", sample_text(11 * 32, 9));
  const std::string third_ = folder_.file("third.txt", sample_text(5 * 32, 17));
};

TEST_F(EvaluationInTraining, IsWhatTheVerbFindsInTheCheckpoint) {
  const std::vector<Words> layouts = {
      {"--strategy", "none"},
      {"-n", "2"},
      {"-n", "2", "--strategy", "torch_fsdp"},
      {"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"},
      {"-n", "4", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o", "pp_size=2"}};
  for (const Words& layout : layouts) {
    expect_success(train(Words{"--steps", "3", "--output", in("out"), "--save-every", "2", "--evaluate-every",
                               "2", "--evaluation-data", other_, "--metrics", in("m")} +
                         layout));
    const auto found = evaluations(in("m"));
    ASSERT_EQ(found.size(), 3u);
    EXPECT_TRUE(found[0].is_null());
    const auto verb = [&](const std::string& model) {
      return nlohmann::json::parse(
          expect_success(Words{"evaluate", "--model", model, "--data", other_, "--json"} + layout).out);
    };
    const nlohmann::json second = verb(in("out/step-2")), last = verb(in("out"));
    EXPECT_EQ(found[1].at("loss"), second.at("loss")) << testing::PrintToString(layout);
    EXPECT_EQ(found[1].at("perplexity"), second.at("perplexity"));
    EXPECT_EQ(found[2].at("loss"), last.at("loss")) << "the last step is evaluated, too";
    EXPECT_NE(found[1].at("loss"), found[2].at("loss"));
    fs::remove_all(in("out"));
  }
}

TEST_F(EvaluationInTraining, LeavesTheTrainingAsItIsAlsoResumedBetweenTwo) {
  for (const Words& layout : {Words{"-n", "2", "--strategy", "torch_fsdp"},
                              Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "pp_size=2"}}) {
    const Words evaluated = {"--evaluate-every", "2", "--evaluation-data", other_};
    expect_success(train(Words{"--steps", "6", "--output", in("plain")} + layout));
    expect_success(
        train(Words{"--steps", "6", "--output", in("whole"), "--metrics", in("m")} + evaluated + layout));
    expect_success(
        train(Words{"--steps", "3", "--output", in("half"), "--metrics", in("n")} + evaluated + layout));
    expect_success(
        train(Words{"--steps", "6", "--output", in("half"), "--resume", in("half"), "--metrics", in("n")} +
              evaluated + layout));
    EXPECT_EQ(read_bytes(in("whole/model.safetensors")), read_bytes(in("plain/model.safetensors")));
    EXPECT_EQ(read_bytes(in("half/model.safetensors")), read_bytes(in("plain/model.safetensors")));
    const auto whole = evaluations(in("m")), half = evaluations(in("n"));
    ASSERT_EQ(half.size(), 6u);
    for (const size_t step : {1, 3, 5}) EXPECT_EQ(half[step], whole[step]) << step;
    EXPECT_FALSE(half[2].is_null()) << "the last step of the first part";
    for (const char* name : {"plain", "whole", "half"}) fs::remove_all(in(name));
  }
}

TEST_F(EvaluationInTraining, NamesTheValuesOfSeveralSets) {
  const Output output = expect_success(
      train({"--steps", "2", "--evaluate-every", "2", "--evaluation-data", other_, "--evaluation-data",
             "books=" + third_, "--metrics", in("m"), "--strategy", "none"}));
  const nlohmann::json found = evaluations(in("m")).at(1);
  EXPECT_EQ(found.at("loss"), found.at("other").at("loss"));
  EXPECT_NE(found.at("loss"), found.at("books").at("loss"));
  EXPECT_THAT(output.error, HasSubstr("books/loss"));
}

TEST_F(EvaluationInTraining, OfHeldOutDocumentsIsAfterEachEpoch) {
  std::string lines;
  for (uint32_t i = 0; i < 40; ++i) lines += nlohmann::json{{"text", sample_text(70, i)}}.dump() + "\n";
  const std::string documents = folder_.file("documents.jsonl", lines);
  const Words data = {"--data", documents, "--held-out", "0.25", "--bytes"};
  const Words model = {"--model", config_};
  expect_success(Words{"train", "--epochs", "2", "--evaluate-every", "epoch", "--output", in("out"),
                       "--metrics", in("m"), "--strategy", "none"} +
                 model + data);
  const auto found = evaluations(in("m"));
  size_t evaluated = 0;
  for (const nlohmann::json& each : found) evaluated += each.is_null() ? 0 : 1;
  EXPECT_EQ(evaluated, 2u);
  const nlohmann::json last =
      nlohmann::json::parse(expect_success(Words{"evaluate", "--model", in("out"), "--json"} + data).out);
  EXPECT_EQ(found.back().at("loss"), last.at("loss"));
}

TEST_F(EvaluationInTraining, KeepsTheBestAndStopsByPatience) {
  const Output output = expect_success(
      train({"--steps",           "30",   "--lr",           "0.5",        "--evaluate-every", "1",
             "--evaluation-data", other_, "--keep-best",    "perplexity", "--keep-last",      "1",
             "--patience",        "3",    "--output",       in("out"),    "--metrics",        in("m"),
             "--strategy",        "none", "--end-with-best"}));
  const auto found = evaluations(in("m"));
  ASSERT_LT(found.size(), 30u) << "a rate of 0.5 diverges";
  size_t best = 0;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i].at("perplexity") < found[best].at("perplexity")) best = i;
  EXPECT_EQ(found.size(), best + 1 + 3);
  EXPECT_EQ(fs::read_symlink(in("out/best")), "step-" + std::to_string(best + 1));
  const nlohmann::json result = nlohmann::json::parse(
      expect_success({"evaluate", "--model", in("out"), "--data", other_, "--json"}).out);
  EXPECT_EQ(result.at("perplexity"), found[best].at("perplexity"));
  EXPECT_THAT(output.error, HasSubstr("best step"));
}

TEST_F(EvaluationInTraining, AnAverageIsEvaluatedAndSaved) {
  expect_success(
      train({"-n", "2", "--steps", "4", "--ema", "0.5", "--evaluate-every", "2", "--evaluation-data", other_,
             "--keep-best", "ema/loss", "--output", in("out"), "--metrics", in("m")}));
  const nlohmann::json found = evaluations(in("m")).at(3);
  const nlohmann::json average = nlohmann::json::parse(
      expect_success({"evaluate", "--model", in("out/ema"), "--data", other_, "--json", "-n", "2"}).out);
  EXPECT_EQ(found.at("ema").at("loss"), average.at("loss"));
  EXPECT_NE(found.at("loss"), average.at("loss"));
  EXPECT_TRUE(fs::exists(in("out/best/ema/model.safetensors")));
}

TEST_F(EvaluationInTraining, PrintsWhatTheModelWrites) {
  copy_trained_model();
  const Output output =
      expect_success({"train", "--model", in("out"), "--data", data_, "--steps", "2", "--lr", "0",
                      "--sample-every", "1", "--sample-prompt", "the ", "-n", "2"});
  const std::string text = expect_success({"generate", "--model", in("out"), "--prompt", "the ", "--greedy",
                                           "--max-new-tokens", "40"})
                               .out;
  const std::string continued = text.substr(4, 20);
  ASSERT_EQ(continued.find('\n'), std::string::npos);
  EXPECT_THAT(output.error, HasSubstr("step 1: the  -> " + continued));
  EXPECT_THAT(output.error, HasSubstr("step 2: the  -> " + continued));
  EXPECT_TRUE(refuses(train({"--sample-every", "1"}), 1, {"--sample-every", "--sample-prompt"}));
}

// The values of a set stand below its name.
TEST_F(EvaluationInTraining, RefusesNamesOfTheValuesThatTheModelHasBeforeItTrains) {
  const auto named = [&](const std::string& name) {
    return train({"--steps", "1", "--evaluate-every", "1", "--evaluation-data", other_, "--evaluation-data",
                  name + "=" + third_, "--metrics", in("m"), "--strategy", "none"});
  };
  for (const char* name : {"loss", "perplexity"}) {
    EXPECT_TRUE(refuses(named(name), 1, {"--evaluation-data", "\"" + std::string(name) + "\""}));
    EXPECT_TRUE(!fs::exists(in("m")) || read_metrics(in("m")).empty()) << "no step ran";
  }
  expect_success(named("accuracy"));
  EXPECT_TRUE(evaluations(in("m")).at(0).at("accuracy").contains("loss")) << "which this model lacks";
  expect_success(train({"--steps", "1", "--evaluate-every", "1", "--evaluation-data", "loss=" + third_,
                        "--metrics", in("m"), "--strategy", "none"}));
}

TEST_F(EvaluationInTraining, RefusesWhatHasNoEffect) {
  const Words set = {"--evaluation-data", other_};
  EXPECT_TRUE(refuses(train({"--evaluate-every", "2"}), 1, {"--evaluate-every"}));
  EXPECT_TRUE(refuses(train(set), 1, {"--evaluation-data", "--evaluate-every"}));
  EXPECT_TRUE(refuses(train(Words{"--evaluate-every", "often"} + set), 1, {"often"}));
  EXPECT_TRUE(refuses(train(Words{"--evaluate-every", "0"} + set), 1, {"\"0\""}));
  EXPECT_TRUE(refuses(train(Words{"--evaluate-every", "1", "--keep-best", "loss"} + set), 1, {"--output"}));
  EXPECT_TRUE(refuses(train(Words{"--evaluate-every", "1", "--keep-last", "1"} + set), 1, {"--keep-last"}));
  EXPECT_TRUE(
      refuses(train(Words{"--evaluate-every", "1", "--keep-best", "los", "--output", in("out")} + set), 1,
              {"\"los\"", "loss"}));
  EXPECT_TRUE(refuses(train(Words{"--evaluate-every", "1", "--evaluation-data", "ema=" + third_} + set), 1,
                      {"\"ema\""}));
  EXPECT_TRUE(
      refuses(train(Words{"--evaluate-every", "1", "--evaluation-data", other_} + set), 1, {"\"other\""}));
  EXPECT_TRUE(
      refuses(train({"--evaluate-every", "1", "--evaluation-data", in("nothing.txt")}), 1, {"nothing.txt"}));
  EXPECT_TRUE(
      refuses(train(Words{"--evaluate-every", "1", "--word-error-rate"} + set), 1, {"--word-error-rate"}));
  EXPECT_FALSE(fs::exists(in("out/model.safetensors")));
}

}  // namespace
}  // namespace weft::test

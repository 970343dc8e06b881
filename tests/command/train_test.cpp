// `weft train`: its output and files, and that the number of ranks and interruptions do not change the
// result.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The number of parameters of the tiny model: wte, wpe, two blocks and ln_f.
constexpr int64_t kWidth = 12;
constexpr int64_t kParameters =
    256 * kWidth + 32 * kWidth + 2 * (12 * kWidth * kWidth + 13 * kWidth) + 2 * kWidth;

using Train = CommandTest;

std::vector<double> losses_of(const std::vector<nlohmann::json>& lines) {
  std::vector<double> losses;
  for (const nlohmann::json& line : lines) losses.push_back(line.at("loss"));
  return losses;
}

TEST_F(Train, WritesTheMetricsOfEachStep) {
  const Output output =
      expect_success(train({"-n", "2", "--steps", "3", "--max-grad-norm", "0.5", "--metrics", in("m"), "--lr",
                            "0.01", "--lr-scheduler", "linear_warmup", "--warmup-steps", "2"}));
  EXPECT_THAT(output.error, HasSubstr("7.2 k parameters, 17 samples, 2 ranks, strategy torch_ddp, 3 steps"));
  EXPECT_THAT(output.error, HasSubstr("step 3/3"));
  const auto lines = read_metrics(in("m"));
  ASSERT_EQ(lines.size(), 3u);
  const double rates[] = {0, 0.005, 0.01};
  for (int64_t i = 0; i < 3; ++i) {
    const nlohmann::json& line = lines[static_cast<size_t>(i)];
    EXPECT_EQ(line.at("step"), i + 1);
    EXPECT_GT(line.at("loss"), 4.0);
    EXPECT_LT(line.at("loss"), 6.0);
    EXPECT_DOUBLE_EQ(line.at("lr"), rates[i]);
    EXPECT_GT(line.at("grad_norm"), 0.0);
    EXPECT_GT(line.at("step_seconds"), 0.0);
    const double tokens = i < 2 ? 8 * 32 : 32;  // the last batch has one sample
    EXPECT_NEAR(line.at("tokens_per_second").get<double>() * line.at("step_seconds").get<double>(), tokens,
                1e-6 * tokens);
    EXPECT_GT(line.at("peak_memory_bytes"), 4 * 4 * kParameters);  // values, gradients, two moments
    const nlohmann::json& bytes = line.at("communicated_bytes");
    EXPECT_EQ(bytes.at("all_reduce"), 4 * kParameters);  // 2 (P-1)/P of the fp32 gradients
    EXPECT_GT(bytes.at("control"), 0);
    // In the first two steps the ranks are compared.
    EXPECT_LT(bytes.at("control"), line.at("step") <= 2 ? 4000 : 1000);
  }
  const Words two = train({"--epochs", "1", "--strategy", "none", "--drop-last"});
  EXPECT_THAT(expect_success(two).error, HasSubstr("17 samples, 1 rank, strategy none, 2 steps"));
  expect_success(train({"--steps", "2", "--strategy", "none", "--metrics", in("m")}));
  const auto alone = read_metrics(in("m"));  // a new file
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_FALSE(alone[0].contains("grad_norm"));
  for (const auto& [name, count] : alone[0].at("communicated_bytes").items()) EXPECT_EQ(count, 0) << name;
}

TEST_F(Train, OnRanksHasTheLossOfOneRank) {
  for (const Words& order : {Words{"--no-shuffle"}, Words{"--seed", "3", "--accumulate", "2"}}) {
    std::vector<std::vector<double>> losses;
    for (const char* ranks : {"1", "2"}) {
      expect_success(train(Words{"-n", ranks, "--steps", "5", "--metrics", in("m")} + order));
      losses.push_back(losses_of(read_metrics(in("m"))));
    }
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(losses[1][i], losses[0][i], 1e-6 * losses[0][i]) << "step " << i;
  }
}

TEST_F(Train, LearnsAndCountsEpochs) {
  expect_success(train({"--epochs", "15", "--lr", "0.01", "--metrics", in("m"), "--strategy", "none"}));
  const auto lines = read_metrics(in("m"));
  EXPECT_EQ(lines.size(), 45u);
  EXPECT_LT(lines.back().at("loss"), 0.7 * lines.front().at("loss").get<double>());
}

// Every family trains on bytes with the configurations in samples/.
TEST_F(Train, LearnsWithEverySample) {
  for (const char* sample : {"gpt2_bytes", "llama_bytes"}) {
    expect_success({"train", "--model", std::string(WEFT_SAMPLES) + "/" + sample + "/config.json", "--data",
                    data_, "--sequence-length", "32", "-n", "2", "--steps", "12", "--lr", "0.01", "--metrics",
                    in("m")});
    const auto lines = read_metrics(in("m"));
    ASSERT_EQ(lines.size(), 12u) << sample;
    EXPECT_LT(lines.back().at("loss"), 0.75 * lines.front().at("loss").get<double>()) << sample;
  }
}

TEST_F(Train, TakesItsSettingsFromABoosterFile) {
  const std::string file = folder_.file(
      "booster.json",
      R"({"strategy": "torch_ddp", "options": {"bucket_cap_mb": 1}, "seed": 3, "max_grad_norm": 0.5})");
  expect_success(train({"--booster", file, "--steps", "3", "--metrics", in("file")}));
  expect_success(train({"--strategy", "torch_ddp", "-o", "bucket_cap_mb=1", "--seed", "3", "--max-grad-norm",
                        "0.5", "--steps", "3", "--metrics", in("flags")}));
  EXPECT_EQ(losses_of(read_metrics(in("file"))), losses_of(read_metrics(in("flags"))));
  EXPECT_TRUE(read_metrics(in("file")).at(0).contains("grad_norm"));
  expect_success(train({"--booster", file, "--max-grad-norm", "0", "--steps", "1", "--metrics", in("0")}));
  EXPECT_FALSE(read_metrics(in("0")).at(0).contains("grad_norm"));
}

TEST_F(Train, ResumesTheNewestFolderExactly) {
  folder_.file("config.json", config_json({.dropout = 0.1}));
  const Words same = {
      "--steps",        "8", "--accumulate", "2", "--max-grad-norm", "0.5", "--lr-scheduler", "cosine_warmup",
      "--warmup-steps", "2", "-n",           "2"};
  expect_success(train(same + Words{"--metrics", in("whole.jsonl"), "--output", in("whole")}));
  expect_success(train(same + Words{"--output", in("parts"), "--save-every", "3"}));
  EXPECT_TRUE(fs::exists(in("parts/step-3/training_state/state.json")));
  EXPECT_TRUE(fs::exists(in("parts/step-6/config.json")));
  EXPECT_FALSE(fs::exists(in("parts/step-9")));
  const auto whole = losses_of(read_metrics(in("whole.jsonl")));
  const auto expect_rest = [&](const std::string& from, size_t after) {
    const Output output = expect_success(
        train(same + Words{"--resume", from, "--metrics", in("rest.jsonl"), "--output", in("rest")}));
    EXPECT_THAT(output.error, HasSubstr("after step " + std::to_string(after)));
    const auto lines = read_metrics(in("rest.jsonl"));
    EXPECT_EQ(lines.size(), 8 - after);
    if (!lines.empty()) EXPECT_EQ(lines.front().at("step"), after + 1);
    EXPECT_EQ(losses_of(lines),
              std::vector<double>(whole.begin() + static_cast<int64_t>(after), whole.end()));
    for (const char* file : {"/model.safetensors", "/training_state/part-00001.safetensors"})
      EXPECT_TRUE(read_bytes(in("rest") + file) == read_bytes(in("whole") + file)) << file;
    fs::remove_all(in("rest"));
    fs::remove(in("rest.jsonl"));
  };
  expect_rest(in("parts/step-3"), 3);
  expect_rest(in("parts"), 8);  // the step that was saved last
  fs::remove_all(in("parts/training_state"));
  expect_rest(in("parts"), 6);
}

// A run that was killed at step 6, after its save at step 3, in the middle of a line.
TEST_F(Train, ResumesTheMetricsBehindTheStepThatWasSaved) {
  const Words same = {"--strategy", "none", "--output", in("out"), "--save-every", "3", "--metrics", in("m")};
  expect_success(train(Words{"--steps", "6"} + same));
  const std::string whole = read_bytes(in("m"));
  folder_.file("m", whole + R"({"step": 7, "lo)");
  expect_success(train(Words{"--steps", "6", "--resume", in("out/step-3")} + same));
  const auto lines = read_metrics(in("m"));
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    EXPECT_EQ(lines[i].at("loss"), read_metrics(folder_.file("whole", whole))[i].at("loss"));
  }
}

TEST_F(Train, MarksTheStepsThatAnOverflowSkipped) {
  expect_success(train({"--strategy", "none", "--steps", "2", "--metrics", in("m"), "--mixed-precision",
                        R"({"name": "fp16", "init_scale": 4294967296})"}));
  int64_t skipped = 0, step = 0;
  for (const nlohmann::json& line : read_metrics(in("m"))) {
    EXPECT_EQ(line.at("step"), step + 1);
    if (line.contains("skipped"))
      ++skipped;
    else
      ++step;
    EXPECT_EQ(line.value("skipped", true), true);
  }
  EXPECT_EQ(step, 2);
  EXPECT_GT(skipped, 0);
}

TEST_F(Train, SavesOverAFolderAndKeepsWhatIsNotItsOwn) {
  fs::create_directories(in("out"));
  folder_.file("out/tokenizer_config.json", "{}");
  folder_.file("out/pytorch_model.bin", "of another save");
  expect_success(train({"--steps", "1", "--output", in("out"), "--strategy", "none"}));
  expect_success(train({"--steps", "2", "--output", in("out"), "--strategy", "none"}));
  EXPECT_EQ(read_bytes(in("out/tokenizer_config.json")), "{}");
  EXPECT_FALSE(fs::exists(in("out/pytorch_model.bin")));
  const auto state = nlohmann::json::parse(read_bytes(in("out/training_state/state.json")));
  EXPECT_EQ(state.at("step"), 2);
  EXPECT_EQ(nlohmann::json::parse(read_bytes(in("out/config.json"))).at("architectures"),
            nlohmann::json({"GPT2LMHeadModel"}));
}

TEST_F(Train, SaysThatAFolderWithoutWeightsGivesInitialValues) {
  const Output output = expect_success(
      {"train", "--model", folder_.path(), "--data", data_, "--steps", "1", "--strategy", "none"});
  EXPECT_THAT(output.error, HasSubstr("no weights"));
}

// `from` are the flags of the saved run; the resumed run has different ones.
class ResumeFlags : public CommandTest {
 protected:
  void SetUp() override { copy_trained_model(); }
  Words resume(const Words& more) const {
    return train(Words{"--strategy", "none", "--steps", "21", "--resume", in("out")} + more);
  }
};

TEST_F(ResumeFlags, AreRefusedIfTheyWouldHaveNoEffect) {
  EXPECT_TRUE(refuses(resume({"--lr", "0.003"}), 1, {"--lr is 0.003", "has 0.01", "the flag"}));
  EXPECT_TRUE(refuses(resume({"--betas", "0.8,0.999"}), 1, {"--betas is 0.8", "has 0.9"}));
  EXPECT_TRUE(refuses(resume({"--optimizer", "sgd"}), 1, {"optimizer \"adamw\"", "\"sgd\""}));
  EXPECT_TRUE(refuses(resume({"--seed", "7"}), 1, {"seed 42", "is 7"}));
  EXPECT_TRUE(refuses(resume({"--lr-scheduler", "cosine_warmup"}), 1, {"was \"constant", "\"cosine_warmup"}));
  EXPECT_TRUE(refuses(train({"--resume", in("nowhere")}), 1, {"--resume", "nowhere", "step-N", "--output"}));
  EXPECT_TRUE(refuses(train({"--strategy", "none", "--resume", in("out"), "--steps", "19"}), 1,
                      {"step 20", "step 19", "--steps", "give more"}));
  EXPECT_THAT(expect_success(train({"--strategy", "none", "--resume", in("out"), "--steps", "20"})).error,
              HasSubstr("all 20 steps"));
  EXPECT_THAT(expect_success(resume({"--max-grad-norm", "1"})).error,
              HasSubstr("max_grad_norm was 0.0, is 1.0"));
}

TEST_F(ResumeFlags, NotGivenAreThoseOfTheSavedRun) {
  expect_success(resume({"--metrics", in("m")}));
  const auto lines = read_metrics(in("m"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].at("lr"), kTrainedRate);
}

}  // namespace
}  // namespace weft::test

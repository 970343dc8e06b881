// What shows how a training goes: `weft train --tensorboard`, the times in --metrics, and the table at the
// end.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "command/command.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr int kFailed = 1;

class Watching : public CommandTest {
 protected:
  // Returns the pairs of step and value that TensorBoard shows, by tag.
  static json shown(const std::string& folder) {
    const Output read = launch::Process({oracle_python(), WEFT_TRAIN_TESTS "/event_files.py", folder},
                                        {.environment = {}, .input = "", .error_fd = -1})
                            .finish();
    EXPECT_EQ(read.exit_code, 0) << read.error;
    return read.exit_code == 0 ? json::parse(read.out) : json::object();
  }
  // Expects that a tag has the values of a member of the lines of --metrics, each step once.
  static void expect_same(const json& tag, const std::vector<json>& lines, const std::string& member) {
    ASSERT_EQ(tag.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(tag[i][0], lines[i].at("step"));
      EXPECT_EQ(tag[i][1].get<float>(), lines[i].at(json::json_pointer(member)).get<float>()) << member;
    }
  }
};

TEST_F(Watching, IsRefusedWhereNothingCanBeWritten) {
  for (const std::string& place : {data_, data_ + "/events", std::string("/proc/events")})
    EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--tensorboard", place, "--output", in("out")}),
                        kFailed, {"--tensorboard " + place + ": "}));
  EXPECT_FALSE(fs::exists(in("out") + "/config.json"));
  EXPECT_TRUE(refuses(train({"--strategy", "none", "--steps", "1", "--tensorboard", ""}), kFailed,
                      {"--tensorboard is empty"}));
}

TEST_F(Watching, HasInTensorBoardWhatMetricsHave) {
  WEFT_NEEDS_ORACLE();
  expect_success(train({"-n", "2", "--steps", "4", "--max-grad-norm", "1", "--metrics", in("m"),
                        "--tensorboard", in("new/events")}));
  const json tags = shown(in("new/events"));
  const std::vector<json> lines = read_metrics(in("m"));
  for (const char* name :
       {"loss", "lr", "grad_norm", "step_seconds", "tokens_per_second", "peak_memory_bytes",
        "communicated_bytes/all_reduce", "communicated_bytes/control"})
    expect_same(tags.value(name, json()), lines, std::string("/") + name);
}

TEST_F(Watching, ShowsRepeatedStepsOnceAfterAResume) {
  WEFT_NEEDS_ORACLE();
  const Words same = {"--strategy",    "none",       "--steps",   "6",
                      "--tensorboard", in("events"), "--metrics", in("m")};
  expect_success(train(same + Words{"--output", in("out"), "--save-every", "3"}));
  expect_success(train(same + Words{"--resume", in("out/step-3")}));
  EXPECT_EQ(std::distance(fs::directory_iterator(in("events")), {}), 2);
  const std::vector<json> lines = read_metrics(in("m"));
  ASSERT_EQ(lines.size(), 6u);
  expect_same(shown(in("events")).at("step_seconds"), lines, "/step_seconds");
  // Another training that begins there hides what the folder has.
  expect_success(train({"--strategy", "none", "--steps", "1", "--tensorboard", in("events")}));
  EXPECT_EQ(shown(in("events")).at("loss").size(), 1u);
}

TEST_F(Watching, DividesTheTimeOfEachStep) {
  expect_success(
      train({"-n", "2", "--steps", "3", "--metrics", in("m"), "--output", in("out"), "--save-every", "1"}));
  for (const json& line : read_metrics(in("m"))) {
    double parts = 0;
    for (const char* part : {"forward", "backward", "optimizer", "communication_wait"}) {
      EXPECT_GT(line.at(std::string(part) + "_seconds"), 0.0) << part;
      parts += line.at(std::string(part) + "_seconds").get<double>();
    }
    EXPECT_LE(parts, line.at("step_seconds").get<double>() * 1.001);
    EXPECT_GT(line.at("data_seconds"), 0.0);
    EXPECT_EQ(line.contains("saving_seconds"), line.at("step") > 1) << line;  // of the save before this step
  }
}

TEST_F(Watching, EndsWithATableOfTheTime) {
  const Output one = expect_success(train({"--strategy", "none", "--steps", "3", "--output", in("out")}));
  EXPECT_THAT(one.error,
              testing::ContainsRegex("544 tokens in 3 steps and [0-9.]+ s, [0-9.]+ tokens/s without"));
  for (const char* row : {"\n  forward ", "\n  backward ", "\n  optimizer ", "\n  data ", "\n  saving ",
                          " TFLOP/s by the formula of the model\n"})
    EXPECT_THAT(one.error, HasSubstr(row));
  EXPECT_THAT(one.error, Not(HasSubstr("waiting for")));
  const Output two = expect_success(train({"-n", "2", "--steps", "1", "--peak-tflops", "0.5"}));
  EXPECT_THAT(two.error, HasSubstr("tokens/s without saving; mean over the ranks:"));
  EXPECT_THAT(two.error, HasSubstr("  waiting for communication "));
  EXPECT_THAT(two.error,
              testing::ContainsRegex("on each rank by the formula of the model, [0-9.]+ % of the given "
                                     "peak of 0.5\n"));
  const Output done = expect_success(train({"--strategy", "none", "--steps", "3", "--resume", in("out")}));
  EXPECT_THAT(done.error, Not(HasSubstr("tokens in")));
}

TEST_F(Watching, MeasuresAPeakOnlyIfAskedTo) {
  const Words one_step = train({"--strategy", "none", "--steps", "1"});
  EXPECT_THAT(expect_success(one_step).error, Not(HasSubstr("product")));
  EXPECT_THAT(expect_success(one_step + Words{"--peak-tflops", "measure"}).error,
              testing::ContainsRegex(" % of the [0-9.e-]+ of a measured product of 2048\\^3 in Float\n"));
}

TEST_F(Watching, RefusesAPeakThatIsNoneOrHasNothingToCompare) {
  for (const char* peak : {"0", "nan", "1x", "fast", "1e999"})
    EXPECT_TRUE(refuses(train({"--strategy", "none", "--steps", "1", "--peak-tflops", peak}), kFailed,
                        {std::string("--peak-tflops is \"") + peak + "\"", "above 0"}));
  EXPECT_TRUE(refuses(train({"--strategy", "none", "--steps", "1", "--peak-tflops", "1", "--architecture",
                             "GPT2ForSequenceClassification"}),
                      kFailed, {"--peak-tflops is 1, but", "GPT2ForSequenceClassification", "leave it"}));
}

}  // namespace
}  // namespace weft::test

// `weft train` and `evaluate` with a library of data sets: that of sdk/templates/data.
#include <gmock/gmock.h>

#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr int kFailed = 1;

class Dataset : public CommandTest {
 protected:
  Dataset() {
    std::string lines;
    RawTensors samples;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < kLines; ++i) {
      for (int64_t k = 0; k < kIds; ++k) {
        ids.push_back((i * 7 + k * k * 3) % 60);
        lines += std::to_string(ids.back()) + (k + 1 < kIds ? " " : "\n");
      }
    }
    folder_.file("lines", lines);
    for (const char* field : {"input_ids", "labels"}) samples[field] = int64_tensor({kLines, kIds}, ids);
    folder_.file("same.safetensors", safetensors_bytes(samples));
  }

  Words with_library(const std::string& verb, const Words& more) const {
    return Words{verb,        "--model",   config_,         "--data",
                 in("lines"), "--dataset", "template_name", "--dataset-option",
                 "ids=8"} +
           more;
  }
  static Output run(const Words& words) {
    return weft_command_with(std::string("WEFT_PLUGIN_ADD_PATH=") + WEFT_TEST_DATA_PLUGINS, words);
  }
  std::vector<double> losses(const Words& words) const {
    const Output output = run(words + Words{"--metrics", in("metrics")});
    EXPECT_EQ(output.exit_code, 0) << output.error;
    std::vector<double> found;
    for (const nlohmann::json& line : read_metrics(in("metrics"))) found.push_back(line.at("loss"));
    return found;
  }
  void refuses_with(const Words& words, int code, const std::vector<std::string>& pieces) const {
    const Output output = run(words);
    EXPECT_EQ(output.exit_code, code) << output.error;
    for (const std::string& piece : pieces) EXPECT_THAT(output.error, testing::HasSubstr(piece));
  }

  static constexpr int64_t kLines = 24, kIds = 8;
};

TEST_F(Dataset, TrainsAsTheSameTensorsDo) {
  for (const Words& ranks : {Words{"--strategy", "none"}, Words{"-n", "2"}}) {
    const std::vector<double> expected =
        losses(Words{"train", "--model", config_, "--data", in("same.safetensors"), "--steps", "4"} + ranks);
    EXPECT_EQ(losses(with_library("train", Words{"--steps", "4"} + ranks)), expected);
    EXPECT_EQ(expected.size(), 4u);
  }
}

TEST_F(Dataset, IsResumedAndEvaluatedOnWhatWasHeldOut) {
  const Words held_out{"--held-out", "0.3", "--strategy", "none"};
  const std::vector<double> whole = losses(with_library("train", held_out + Words{"--steps", "6"}));
  losses(with_library("train", held_out + Words{"--steps", "3", "--output", in("out")}));
  // The file of metrics is continued.
  EXPECT_EQ(losses(with_library("train", held_out + Words{"--steps", "6", "--resume", in("out")})), whole);
  Words evaluate = with_library("evaluate", held_out + Words{"--json"});
  evaluate[2] = in("out");
  const Output output = run(evaluate);
  ASSERT_EQ(output.exit_code, 0) << output.error;
  EXPECT_THAT(output.out, testing::HasSubstr("\"loss\""));
}

TEST_F(Dataset, RefusesWhatDoesNotFit) {
  const Words steps{"--steps", "1", "--strategy", "none"};
  refuses_with(with_library("train", Words{"--packing", "stream"} + steps), kFailed,
               {"--packing is for text", "--dataset template_name reads the data"});
  refuses_with(with_library("train", Words{"--dataset-option", "idds=4"} + steps), kFailed,
               {"did you mean \"ids\"?"});
  Words other = with_library("train", steps);
  other[8] = "ids=9";
  refuses_with(other, kFailed, {in("lines") + ", line 1", "more ids"});
  other[8] = "ids=8";
  other[6] = "nobody";
  refuses_with(other, kFailed, {"no library has the data set", "nobody"});
  Words without{"train", "--model", config_, "--data", in("lines"), "--dataset-option", "ids=8"};
  refuses_with(without + steps, kFailed, {"--dataset-option needs --dataset"});
  refuses_with(with_library("evaluate", {"--by-document"}), kFailed, {"--by-document"});
}

}  // namespace
}  // namespace weft::test

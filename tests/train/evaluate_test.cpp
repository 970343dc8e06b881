// `weft evaluate` prints the loss of training on any number of ranks and with any batch size.
#include <gmock/gmock.h>

#include <cmath>

#include "train/command.hpp"

namespace weft::test {
namespace {

class Evaluate : public CommandTest {
 protected:
  void SetUp() override {
    copy_trained_model();
    folder_.file("samples.safetensors", safetensors_bytes(language_samples(7, 16)));
  }
  nlohmann::json evaluate(const std::string& data, const Words& more = {}) const {
    return nlohmann::json::parse(
        weft_succeeds(Words{"evaluate", "--model", in("out"), "--data", in(data), "--json"} + more).out);
  }
};

TEST_F(Evaluate, IsTheLossOfTraining) {
  for (const char* data : {"data.txt", "samples.safetensors"}) {
    const nlohmann::json result = evaluate(data);
    weft_succeeds({"train", "--model", in("out"), "--data", in(data), "--no-shuffle", "--batch-size", "64",
                   "--steps", "1", "--lr", "0", "--strategy", "none", "--metrics", in("m")});
    const double loss = result.at("loss"), trained = read_metrics(in("m")).at(0).at("loss");
    EXPECT_NEAR(loss, trained, 1e-6 * trained) << data;
    EXPECT_NEAR(result.at("perplexity"), std::exp(loss), 1e-9 * std::exp(loss));
  }
}

TEST_F(Evaluate, IsTheSameOnRanksAndInBatchesOfAnySize) {
  for (const char* data : {"data.txt", "samples.safetensors"}) {
    const nlohmann::json expected = evaluate(data);
    for (const Words& more :
         {Words{"-n", "3"}, Words{"--batch-size", "5"}, Words{"-n", "2", "--batch-size", "6"}}) {
      const nlohmann::json result = evaluate(data, more);
      EXPECT_NEAR(result.at("loss"), expected.at("loss"), 1e-6 * expected.at("loss").get<double>())
          << testing::PrintToString(more);
      EXPECT_EQ(result.at("labels"), expected.at("labels"));
      EXPECT_EQ(result.at("samples"), expected.at("samples"));
    }
  }
  EXPECT_EQ(evaluate("data.txt").at("labels"), 17 * 31);
}

TEST_F(Evaluate, SaysItToPeople) {
  const Output output =
      weft_succeeds({"evaluate", "--model", in("out"), "--data", data_, "--precision", "fp64"});
  EXPECT_THAT(output.out, testing::StartsWith("loss "));
  EXPECT_THAT(output.out, testing::HasSubstr("17 samples"));
}

TEST_F(Evaluate, RefusesDataWithoutLabels) {
  RawTensors samples = language_samples(3, 8);
  RawTensor& labels = samples.at("labels");
  labels = int64_tensor(labels.shape, std::vector<int64_t>(24, -100));
  folder_.file("none.safetensors", safetensors_bytes(samples));
  const Words evaluate = {"evaluate", "--model", in("out"), "--data"};
  EXPECT_TRUE(refuses(evaluate + Words{in("none.safetensors")}, 1, {"none.safetensors", "no label counts"}));
  samples.erase("labels");
  folder_.file("unlabelled.safetensors", safetensors_bytes(samples));
  EXPECT_TRUE(refuses(evaluate + Words{in("unlabelled.safetensors")}, 1, {"no labels to evaluate on"}));
  EXPECT_TRUE(refuses(evaluate + Words{data_, "-n", "2", "--batch-size", "3"}, 1,
                      {"--batch-size must be a multiple of 2"}));
}

}  // namespace
}  // namespace weft::test

// `weft train --recipe`, and the settings that it gives: decay and rates by parameter, and the warm-up.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Recipe : public CommandTest {
 protected:
  // Trains one step and returns the weights.
  RawTensors trained(const Words& more) const {
    expect_success(train(Words{"--steps", "1", "--strategy", "none", "--output", in("out")} + more));
    RawTensors tensors = read_safetensors(in("out/model.safetensors"));
    fs::remove_all(in("out"));
    return tensors;
  }
  static std::vector<double> rates(const std::string& path) {
    std::vector<double> found;
    for (const nlohmann::json& line : read_metrics(path)) found.push_back(line.at("lr"));
    return found;
  }
};

TEST_F(Recipe, OfAFinetuningRisesFallsAndClips) {
  expect_success(train({"--steps", "20", "--recipe", "finetune", "--strategy", "none", "--metrics", in("m"),
                        "--output", in("out")}));
  const std::vector<double> found = rates(in("m"));
  EXPECT_EQ(found[0], 0);
  EXPECT_DOUBLE_EQ(found[1], 1e-5) << "a tenth of 20 steps is warm-up";
  EXPECT_DOUBLE_EQ(found[2], 2e-5);
  EXPECT_DOUBLE_EQ(found[11], 1e-5);
  EXPECT_TRUE(read_metrics(in("m"))[0].contains("grad_norm"));
  const std::string job = read_bytes(in("out/training_state/job.yaml"));
  for (const char* line : {"recipe: \"finetune\"", "max_grad_norm: 1.0", "warmup_ratio: 0.1"})
    EXPECT_THAT(job, HasSubstr(line));
}

TEST_F(Recipe, GivesWayToWhatIsGiven) {
  expect_success(train({"--steps", "4", "--recipe", "pretrain", "--lr", "0.01", "--lr-scheduler", "linear",
                        "--strategy", "none", "--metrics", in("m")}));
  EXPECT_DOUBLE_EQ(rates(in("m"))[0], 0.01);
  expect_success(train({"--steps", "4", "--recipe", "finetune", "--warmup-steps", "0", "--strategy", "none",
                        "--metrics", in("m")}));
  EXPECT_DOUBLE_EQ(rates(in("m"))[0], 2e-5);
}

TEST_F(Recipe, SparesNormsAndBiasesFromDecay) {
  const Words rate = {"--lr", "0.1"};
  const RawTensors none = trained(Words{"--weight-decay", "0"} + rate),
                   some = trained(Words{"--weight-decay", "0.5", "--no-decay", "norms", "--no-decay",
                                        "biases", "--no-decay", "*wpe*"} +
                                  rate),
                   all = trained(Words{"--weight-decay", "0.5"} + rate);
  int spared = 0, decayed = 0;
  for (const auto& [name, tensor] : none) {
    const bool is_spared = tensor.shape.size() == 1 || name.find("wpe") != std::string::npos;
    EXPECT_EQ(some.at(name).bytes == tensor.bytes, is_spared) << name;
    if (!name.ends_with("bias"))  // which begin as zeros
      EXPECT_EQ(some.at(name).bytes == all.at(name).bytes, !is_spared) << name;
    ++(is_spared ? spared : decayed);
  }
  EXPECT_GT(spared, 8);
  EXPECT_GT(decayed, 4);
}

TEST_F(Recipe, ScalesTheRateOfParameters) {
  const RawTensors still = trained({"--lr", "0"}), whole = trained({"--lr", "0.1"}),
                   scaled = trained({"--lr", "0.1", "--lr-scale", "*wpe*=0", "--lr-scale", "*.0.*=1",
                                     "--lr-scale", "*.h.*=0"});
  for (const auto& [name, tensor] : scaled) {
    const bool moves = name.find("wpe") == std::string::npos && name.find(".h.1.") == std::string::npos;
    EXPECT_EQ(tensor.bytes, (moves ? whole : still).at(name).bytes) << name;
  }
}

TEST_F(Recipe, ResumesExactly) {
  const Words recipe = {"--recipe",   "finetune",  "--lr",       "0.01",
                        "--lr-scale", "*wpe*=0.5", "--strategy", "none"};
  expect_success(train(Words{"--steps", "6", "--output", in("whole"), "--save-every", "3"} + recipe));
  expect_success(
      train(Words{"--steps", "6", "--output", in("half"), "--resume", in("whole/step-3")} + recipe));
  EXPECT_EQ(read_bytes(in("half/model.safetensors")), read_bytes(in("whole/model.safetensors")));
}

TEST_F(Recipe, RefusesWhatHasNoEffect) {
  EXPECT_TRUE(refuses(train({"--recipe", "finetune", "--optimizer", "sgd"}), 1, {"--recipe", "sgd"}));
  EXPECT_TRUE(refuses(train({"--recipe", "roast"}), 1, {"roast", "finetune"}));
  EXPECT_TRUE(refuses(train({"--no-decay", "*nothing*"}), 1, {"--no-decay", "*nothing*"}));
  EXPECT_TRUE(refuses(train({"--lr-scale", "*wpe*=-1"}), 1, {"--lr-scale", "*wpe*=-1"}));
  EXPECT_TRUE(refuses(train({"--lr-scale", "*wpe*"}), 1, {"*wpe*"}));
  EXPECT_TRUE(refuses(train({"--lr-scale", "*nothing*=2"}), 1, {"*nothing*"}));
  EXPECT_TRUE(refuses(train({"--warmup-ratio", "0.1", "--warmup-steps", "2"}), 1, {"--warmup-ratio"}));
}

TEST_F(Recipe, SaysThatATrainedModelGoesOnAtTheRateOfANewOne) {
  copy_trained_model();
  const auto said = [&](const Words& more) {
    return expect_success(
               Words{"train", "--model", in("out"), "--data", data_, "--steps", "1", "--strategy", "none"} +
               more)
        .error;
  };
  EXPECT_THAT(said({}), HasSubstr("--recipe finetune"));
  EXPECT_THAT(said({"--lr", "0.001"}), testing::Not(HasSubstr("--recipe")));
}

}  // namespace
}  // namespace weft::test

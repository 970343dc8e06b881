// `weft train` and `evaluate` with objectives of libraries: that of `weft plugins new objective focal`, and
// distillation from stored logits.
#include <gmock/gmock.h>

#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr const char* kBert =
    R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 131,
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})";

class ObjectiveOfLibrary : public CommandTest {
 protected:
  Words focal(const Words& more) const { return train(Words{"--objective", "focal"} + more); }
  std::vector<double> losses(const Words& words) const {
    expect_success(words + Words{"--metrics", in("metrics"), "--lr", "0.01"});
    std::vector<double> found;
    for (const nlohmann::json& line : read_metrics(in("metrics"))) found.push_back(line.at("loss"));
    return found;
  }
  void expect_near(const std::vector<double>& found, const std::vector<double>& expected) const {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5 * expected[i]) << i;
  }
};

// Without a power the focal loss is cross entropy, as the model's own loss is.
TEST_F(ObjectiveOfLibrary, TrainsAsTheSameLossOfTheModelDoes) {
  const Words steps{"--steps", "4", "--batch-size", "12"}, cross_entropy{"--objective-option", "gamma=0"};
  const std::vector<double> expected = losses(train(steps + Words{"--strategy", "none"}));
  ASSERT_EQ(expected.size(), 4u);
  for (const Words& ranks :
       {Words{"--strategy", "none"}, Words{"-n", "2"}, Words{"-n", "3", "--accumulate", "2"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o", "parallel_output=false"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "pp_size=2"}})
    expect_near(losses(focal(steps + cross_entropy + ranks)), expected);
  EXPECT_LT(losses(focal(steps + Words{"--objective-option", "gamma=5", "--strategy", "none"}))[0],
            0.99 * expected[0]);
}

// The labels are those without --objective: masked tokens.
TEST_F(ObjectiveOfLibrary, LearnsTheUsualLabelsOfTheClass) {
  const Words words{"train",      "--model", folder_.file("bert.json", kBert),
                    "--data",     data_,     "--mask-token-id",
                    "3",          "--steps", "3",
                    "--strategy", "none"};
  expect_near(losses(words + Words{"--objective", "focal", "--objective-option", "gamma=0",
                                   "--objective-option", "shift=false"}),
              losses(words));
}

TEST_F(ObjectiveOfLibrary, IsResumedAndEvaluated) {
  const Words gamma{"--objective-option", "gamma=1", "--strategy", "none"};
  const std::vector<double> whole = losses(focal(gamma + Words{"--steps", "4"}));
  losses(focal(gamma + Words{"--steps", "2", "--output", in("out")}));
  EXPECT_EQ(losses(focal(gamma + Words{"--steps", "4", "--resume", in("out")})), whole);
  EXPECT_TRUE(refuses(focal({"--steps", "4", "--resume", in("out"), "--strategy", "none"}), 1,
                      {"trained by focal", "\"gamma\":1.0", "\"gamma\":2.0", "same objective"}));
  EXPECT_TRUE(refuses(train({"--steps", "4", "--resume", in("out"), "--strategy", "none"}), 1,
                      {"trained by focal", "the model's own loss"}));
  const Words evaluate{"evaluate", "--model", in("out"), "--data", data_, "--json"};
  const nlohmann::json own = nlohmann::json::parse(expect_success(evaluate).out);
  const Words with{"--objective", "focal", "--objective-option"};
  for (const Words& ranks : {Words{}, Words{"-n", "2"}}) {
    const auto result = [&](const char* option) {
      return nlohmann::json::parse(expect_success(evaluate + with + Words{option} + ranks).out);
    };
    EXPECT_NEAR(result("gamma=0").at("loss").get<double>(), own.at("loss").get<double>(), 1e-5);
    EXPECT_LT(result("gamma=5").at("loss").get<double>(), 0.99 * own.at("loss").get<double>());
    EXPECT_FALSE(result("gamma=0").contains("perplexity"));
  }
  EXPECT_TRUE(own.contains("perplexity"));
}

// The teacher's logits are what `weft forward` writes.
TEST_F(ObjectiveOfLibrary, DistilsATeacher) {
  RawTensors ids;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 8 * 16; ++i) values.push_back((i * i * 7 + i / 16) % 60);
  ids["input_ids"] = int64_tensor({8, 16}, values);
  const std::string inputs = folder_.file("ids.safetensors", safetensors_bytes(ids)),
                    logits = in("logits.safetensors");
  copy_trained_model();
  expect_success({"forward", "--model", in("out"), "--inputs", inputs, "--output", logits});
  RawTensors data = read_safetensors(logits);
  data["teacher_logits"] = data.at("logits");
  data.erase("logits");
  data["input_ids"] = data["labels"] = ids.at("input_ids");
  const Words words{"--data",
                    folder_.file("samples.safetensors", safetensors_bytes(data)),
                    "--objective",
                    "distillation",
                    "--objective-option",
                    "teacher_weight=1"};
  // The teacher itself has no divergence, and the student comes nearer.
  const nlohmann::json own =
      nlohmann::json::parse(expect_success(Words{"evaluate", "--model", in("out"), "--json"} + words).out);
  EXPECT_NEAR(own.at("loss").get<double>(), 0, 1e-6);
  const std::vector<double> found =
      losses(Words{"train", "--model", config_, "--steps", "8", "--strategy", "none"} + words);
  EXPECT_LT(found.back(), 0.7 * found.front());
}

TEST_F(ObjectiveOfLibrary, RefusesWhatDoesNotFit) {
  const Words steps{"--steps", "1", "--strategy", "none"};
  EXPECT_TRUE(refuses(
      train(Words{"--objective", "focl"} + steps), 1,
      {"--objective is \"focl\", must be causal_lm", "distillation, focal", "did you mean \"focal\"?"}));
  EXPECT_TRUE(refuses(focal(Words{"--objective-option", "gama=1"} + steps), 1, {"did you mean \"gamma\"?"}));
  EXPECT_TRUE(refuses(train(Words{"--objective-option", "gamma=1"} + steps), 1,
                      {"--objective-option needs --objective"}));
  EXPECT_TRUE(refuses(train(Words{"--objective", "causal_lm", "--objective-option", "gamma=1"} + steps), 1,
                      {"--objective-option is for the objective of a library", "causal_lm is Weft's own"}));
  EXPECT_TRUE(
      refuses(train(Words{"--objective", "distillation"} + steps), 1, {"distillation", "teacher_logits"}));
  EXPECT_TRUE(refuses(focal({"--steps", "1", "-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"}),
                      1, {"the objective focal", "parallel_output false"}));
  const Words booster{"--booster",
                      folder_.file("booster.json", R"({"strategy": "none", "objective": "focal"})")};
  EXPECT_TRUE(refuses(train(Words{"--steps", "1"} + booster), 1, {"--booster", "give --objective"}));
  copy_trained_model();
  EXPECT_TRUE(
      refuses({"evaluate", "--model", in("out"), "--data", data_, "--by-document", "--objective", "focal"}, 1,
              {"--by-document", "--objective is focal"}));
}

}  // namespace
}  // namespace weft::test

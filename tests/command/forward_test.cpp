// `weft forward` writes complete outputs under their Hugging Face names, the same on any number of ranks.
#include <gmock/gmock.h>

#include <cmath>

#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr double kFp32 = 1e-6;

class Forward : public CommandTest {
 protected:
  // Returns the outputs of a model with initial values for `inputs`.
  RawTensors forward(const RawTensors& inputs, const Words& more = {}) const {
    folder_.file("inputs.safetensors", safetensors_bytes(inputs));
    expect_success(Words{"forward", "--model", config_, "--inputs", in("inputs.safetensors"), "--output",
                         in("out.safetensors")} +
                   more);
    return read_safetensors(in("out.safetensors"));
  }
  void expect_same(const RawTensors& actual, const RawTensors& expected) const {
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      ASSERT_TRUE(actual.contains(name)) << name;
      EXPECT_EQ(actual.at(name).shape, tensor.shape) << name;
      EXPECT_LE(relative_difference(float_values(actual.at(name)), float_values(tensor)), kFp32) << name;
    }
  }
};

TEST_F(Forward, IsTheSameOnRanksAndInBatches) {
  const RawTensors inputs = language_samples(5, 9);
  const RawTensors outputs = forward(inputs);
  EXPECT_EQ(outputs.at("logits").shape, (std::vector<int64_t>{5, 9, 256}));
  EXPECT_EQ(outputs.at("loss").shape, std::vector<int64_t>());
  EXPECT_NEAR(float_values(outputs.at("loss"))[0], std::log(256), 0.3);
  for (const Words& more :
       {Words{"-n", "3"}, Words{"--batch-size", "2"}, Words{"-n", "2", "--batch-size", "2"},
        Words{"-n", "2", "-o", "pp_size=2"}, Words{"-n", "4", "-o", "pp_size=2", "--batch-size", "2"}})
    expect_same(forward(inputs, more), outputs);
}

TEST_F(Forward, GathersTheLogitsOfATensorAxis) {
  const RawTensors inputs = language_samples(5, 9);
  const RawTensors outputs = forward(inputs);
  const Words two = {"-n", "2", "-o", "tp_size=2", "--strategy"};
  for (const Words& more : {two + Words{"hybrid_parallel"}, two + Words{"torch_ddp"},
                            two + Words{"hybrid_parallel", "-o", "parallel_output=false"},
                            Words{"-n", "4", "-o", "tp_size=2", "--strategy", "hybrid_parallel"},
                            Words{"-n", "2", "--booster", folder_.file("booster.json", R"({
                              "strategy": "hybrid_parallel", "options": {"tp_size": 2}})")}})
    expect_same(forward(inputs, more), outputs);
  EXPECT_TRUE(refuses(Words{"forward", "--model", config_, "--inputs", in("inputs.safetensors"), "--output",
                            in("no.safetensors")} +
                          two + Words{"hybrid_parallel", "-o", "parallel_output=true"},
                      1, {"parallel_output is true", "tp_size 2", "leave parallel_output out"}));
}

TEST_F(Forward, GivesNoLossWithoutLabels) {
  RawTensors inputs = language_samples(2, 4);
  const std::vector<float> logits = float_values(forward(inputs).at("logits"));
  inputs.erase("labels");
  const RawTensors outputs = forward(inputs);
  EXPECT_EQ(outputs.size(), 1u);
  EXPECT_EQ(float_values(outputs.at("logits")), logits);
}

TEST_F(Forward, NamesBothLossesOfTwoHeads) {
  folder_.file("config.json", config_json({.architecture = "GPT2DoubleHeadsModel"}));
  RawTensors inputs = language_samples(6, 5);
  for (auto& [name, tensor] : inputs) tensor.shape = {3, 2, 5};
  inputs["mc_token_ids"] = int64_tensor({3, 2}, {4, 3, 2, 4, 4, 1});
  inputs["mc_labels"] = int64_tensor({3}, {0, 1, 1});
  const RawTensors outputs = forward(inputs);
  for (const char* name : {"logits", "mc_logits", "loss", "mc_loss"})
    EXPECT_TRUE(outputs.contains(name)) << name;
  EXPECT_NEAR(float_values(outputs.at("loss"))[0], std::log(256), 0.3);
  EXPECT_NEAR(float_values(outputs.at("mc_loss"))[0], std::log(2), 0.2);
  expect_same(forward(inputs, {"-n", "2"}), outputs);
}

// Checkpoints that were converted from TensorFlow call the parameters of norms gamma and beta.
TEST_F(Forward, ReadsTheNormsOfOldCheckpoints) {
  folder_.file("bert.json", R"({"model_type": "bert", "architectures": ["BertForMaskedLM"],
      "vocab_size": 256, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
      "num_attention_heads": 3, "max_position_embeddings": 32, "pad_token_id": 7})");
  folder_.file("samples.safetensors", safetensors_bytes(language_samples(4, 9)));
  expect_success({"train", "--model", in("bert.json"), "--data", in("samples.safetensors"), "--steps", "2",
                  "--batch-size", "4", "--lr", "0.1", "--output", in("bert")});
  RawTensors old;
  for (const auto& [name, tensor] : read_safetensors(in("bert/model.safetensors"))) {
    const std::string_view weight = "LayerNorm.weight", bias = "LayerNorm.bias";
    if (name.ends_with(weight))
      old[name.substr(0, name.size() - 6) + "gamma"] = tensor;
    else if (name.ends_with(bias))
      old[name.substr(0, name.size() - 4) + "beta"] = tensor;
    else
      old[name] = tensor;
  }
  EXPECT_TRUE(old.contains("bert.embeddings.LayerNorm.gamma"));
  EXPECT_TRUE(old.contains("cls.predictions.bias"));
  EXPECT_FALSE(old.contains("cls.predictions.decoder.bias"));
  config_ = in("bert");
  const RawTensors inputs = language_samples(2, 9);
  const RawTensors expected = forward(inputs);
  folder_.file("bert/model.safetensors", safetensors_bytes(old));
  expect_same(forward(inputs), expected);
}

TEST_F(Forward, RefusesInputsThatDoNotFit) {
  const auto refused = [&](RawTensors inputs, const std::vector<std::string>& pieces) {
    folder_.file("inputs.safetensors", safetensors_bytes(inputs));
    return refuses({"forward", "--model", config_, "--inputs", in("inputs.safetensors"), "--output",
                    in("no.safetensors")},
                   1, pieces);
  };
  const RawTensors good = language_samples(2, 4);
  RawTensors inputs = good;
  inputs["input_ids"] = float_tensor({2, 4}, std::vector<float>(8));
  EXPECT_TRUE(refused(inputs, {"input_ids", "Float", "int64"}));
  inputs = good;
  inputs["inputs_ids"] = inputs["input_ids"];
  inputs.erase("input_ids");
  EXPECT_TRUE(refused(inputs, {"inputs_ids", "did you mean \"input_ids\"?"}));
  EXPECT_TRUE(refused({{"input_ids", int64_tensor({1, 2}, {1, 256})}}, {"token 256", "0 to 255"}));
  EXPECT_TRUE(refused({{"input_ids", int64_tensor({1, 33}, std::vector<int64_t>(33))}}, {"33", "32"}));
  EXPECT_TRUE(refused({}, {"no tensors"}));
  folder_.file("inputs.safetensors", "");
  EXPECT_TRUE(refuses(
      {"forward", "--model", config_, "--inputs", in("inputs.safetensors"), "--output", in("o.safetensors")},
      1, {"inputs.safetensors"}));
  folder_.file("inputs.safetensors", safetensors_bytes(good));
  EXPECT_TRUE(refuses({"forward", "--model", config_, "--inputs", in("inputs.safetensors"), "--output",
                       in("no/where.safetensors")},
                      1, {"no/where.safetensors", "no folder"}));
}

}  // namespace
}  // namespace weft::test

// Padding on the left has the losses of padding on the right.
#include <gmock/gmock.h>

#include "command/command.hpp"

namespace weft::test {
namespace {

constexpr int64_t kRows = 6, kLength = 12, kPadding = 7;

class Padding : public CommandTest {
 protected:
  void SetUp() override {
    folder_.file("llama.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "vocab_size": 256, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32, "rope_theta": 100.0})");
  }
  // Writes rows of 5 to 10 tokens, padded on one side. Labels of padding are not -100 on the left, so that it
  // is the mask that leaves them out.
  std::string write(bool left, bool labelled) const {
    std::vector<int64_t> ids(kRows * kLength, kPadding), mask(ids.size(), 0), labels(ids.size(), -100);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t count = 5 + row, first = row * kLength + (left ? kLength - count : 0);
      if (left) std::fill_n(labels.begin() + row * kLength, kLength - count, kPadding);
      for (int64_t t = 0; t < count; ++t) {
        const auto at = static_cast<size_t>(first + t);
        ids[at] = labels[at] = 20 + (row * 31 + t * t * 7) % 200;
        mask[at] = 1;
      }
    }
    RawTensors tensors = {{"input_ids", int64_tensor({kRows, kLength}, ids)},
                          {"attention_mask", int64_tensor({kRows, kLength}, mask)}};
    if (labelled) tensors["labels"] = int64_tensor({kRows, kLength}, labels);
    return folder_.file(std::string(left ? "left" : "right") + (labelled ? "_labels" : "") + ".safetensors",
                        safetensors_bytes(tensors));
  }
  std::vector<double> losses(const std::string& config, const std::string& data, const Words& more) const {
    Words words = {"train", "--model", config, "--data", data, "--steps", "4", "--batch-size", "4"};
    expect_success(words + Words{"--precision", "fp64", "--lr", "0.01", "--metrics", in("m")} + more);
    std::vector<double> losses;
    for (const nlohmann::json& line : read_metrics(in("m")))
      if (line.contains("loss")) losses.push_back(line.at("loss"));
    return losses;
  }
};

TEST_F(Padding, OnTheLeftHasTheLossOfPaddingOnTheRight) {
  for (const std::string& config : {config_, in("llama.json")})
    for (const bool labelled : {true, false})
      for (const char* ranks : {"1", "2"}) {
        Words more = {"-n", ranks};
        if (!labelled) more = more + Words{"--objective", "causal_lm"};
        const auto right = losses(config, write(false, labelled), more);
        ASSERT_EQ(right.size(), 4u);
        const auto left = losses(config, write(true, labelled), more);
        for (size_t step = 0; step < right.size(); ++step)
          EXPECT_NEAR(left.at(step), right[step], 1e-6) << config << " " << labelled << " " << ranks;
      }
}

// Positions in the data are taken as they are.
TEST_F(Padding, DoesNotChangePositionsOfTheData) {
  const std::string data = write(true, true);
  RawTensors tensors = read_safetensors(data);
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < kRows * kLength; ++i) positions.push_back(i % kLength);
  tensors["position_ids"] = int64_tensor({kRows, kLength}, positions);
  const auto counted = losses(config_, data, {});
  folder_.file("left_labels.safetensors", safetensors_bytes(tensors));
  EXPECT_GT(std::abs(losses(config_, data, {}).front() - counted.front()), 1e-6);
}

}  // namespace
}  // namespace weft::test

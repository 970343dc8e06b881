// T5 in fp16, which keeps a layer of each block in fp32.
#include <gmock/gmock.h>

#include <bit>
#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class WideParameters : public CommandTest {
 protected:
  void SetUp() override {
    t5_ = folder_.file("t5.json", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": 40, "d_model": 12, "d_kv": 4, "d_ff": 20, "num_layers": 2, "num_heads": 2,
        "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0})");
    std::vector<int64_t> ids, labels;
    for (int64_t i = 0; i < 8 * 6; ++i) {
      ids.push_back(1 + i * i % 37);
      labels.push_back(1 + i * 5 % 37);
    }
    folder_.file("pairs.safetensors", safetensors_bytes({{"input_ids", int64_tensor({8, 6}, ids)},
                                                         {"labels", int64_tensor({8, 6}, labels)}}));
  }
  Words train_t5(const std::string& model, const Words& more) const {
    return Words{"train",       "--model", model,          "--data", in("pairs.safetensors"),
                 "--precision", "fp16",    "--batch-size", "4",      "--metrics",
                 in("m")} +
           more;
  }
  static bool is_wide(const std::string& name) { return name.ends_with(".wo.weight"); }

  std::string t5_;
};

TEST_F(WideParameters, AreTrainedAndSavedInFp32UnderEveryStrategy) {
  const std::vector<Words> strategies = {
      {"--strategy", "none"},
      {"--strategy", "torch_ddp", "-n", "2"},
      {"--strategy", "torch_fsdp", "-n", "2"},
      {"--strategy", "low_level_zero", "-n", "2"},
      {"--strategy", "gemini", "-n", "2"},
      {"--strategy", "hybrid_parallel", "-n", "2", "-o", "tp_size=2"},
      {"--strategy", "hybrid_parallel", "-n", "2", "-o", "pp_size=2", "-o", "num_microbatches=2"},
      {"--strategy", "low_level_zero", "-n", "2", "-o", "master_weights=false"},
      {"--strategy", "gemini", "-n", "2", "-o", "master_weights=false"}};
  std::optional<double> loss;
  for (const Words& strategy : strategies) {
    SCOPED_TRACE(testing::PrintToString(strategy));
    fs::remove_all(in("out"));
    expect_success(train_t5(t5_, strategy + Words{"--steps", "3", "--output", in("out")}));
    const double own = read_metrics(in("m")).at(0).at("loss");
    if (!loss) loss = own;
    EXPECT_NEAR(own, *loss, 2e-3 * *loss);
    int wide = 0;
    for (const auto& [name, tensor] : read_safetensors(in("out/model.safetensors"))) {
      EXPECT_EQ(tensor.dtype, is_wide(name) ? "F32" : "F16") << name;
      wide += is_wide(name) ? 1 : 0;
    }
    EXPECT_EQ(wide, 4);
  }
}

// Values that fp16 would round.
TEST_F(WideParameters, AreReadInFp32) {
  expect_success(train_t5(t5_, {"--strategy", "none", "--steps", "2", "--output", in("out")}));
  const RawTensors before = read_safetensors(in("out/model.safetensors"));
  for (const char* strategy : {"torch_fsdp", "low_level_zero"}) {
    expect_success(train_t5(in("out"), {"--strategy", strategy, "-n", "2", "--steps", "1", "--lr", "0",
                                        "--output", in("again")}));
    const RawTensors after = read_safetensors(in("again/model.safetensors"));
    for (const auto& [name, tensor] : before) EXPECT_TRUE(after.at(name).bytes == tensor.bytes) << name;
    fs::remove_all(in("again"));
  }
  // fp16 has 13 bits less of the fraction.
  const auto is_rounded = [](float value) { return (std::bit_cast<uint32_t>(value) & 0x1fff) != 0; };
  int exact = 0;
  for (const auto& [name, tensor] : before)
    if (is_wide(name))
      for (const float value : float_values(tensor)) exact += is_rounded(value) ? 1 : 0;
  EXPECT_GT(exact, 100);
}

}  // namespace
}  // namespace weft::test

// `weft train --on-nonfinite`: an update that is not finite is left out, and the unit is named with which it
// began.
#include <gmock/gmock.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class NonFinite : public CommandTest {
 protected:
  // Writes a model whose embedding has values of `size`, and that drops half of what it embeds with
  // `dropout`.
  void write_model(float size, bool dropout) {
    expect_success(train({"--steps", "1", "--strategy", "none", "--output", in("model")}));
    RawTensors tensors = read_safetensors(in("model/model.safetensors"));
    std::vector<float> values = float_values(tensors.at("transformer.wte.weight"));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? size : -size;
    tensors.at("transformer.wte.weight") = float_tensor(tensors.at("transformer.wte.weight").shape, values);
    folder_.file("model/model.safetensors", safetensors_bytes(tensors));
    TinyModel model;
    model.dropout = dropout ? 0.5 : 0;
    folder_.file("model/config.json", config_json(model));
  }
  Words train_model(const Words& more) const {
    return Words{"train", "--model", in("model"), "--data", data_, "--lr", "0.001"} + more;
  }
};

// A step in training mode doubles what dropout keeps: 2e38 becomes infinite, and stays finite without it.
TEST_F(NonFinite, NamesWhatOnlyDropoutMakesInfinite) {
  write_model(2e38F, true);
  for (const Words& layout :
       {Words{"--strategy", "none"}, Words{"--strategy", "none", "--accumulate", "2"}, Words{"-n", "2"},
        Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "pp_size=2"}}) {
    const Output output = weft_command(train_model(
        Words{"--steps", "3", "--on-nonfinite", "stop", "--output", in("out"), "--metrics", in("m")} +
        layout));
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.error, HasSubstr("of unit prologue")) << testing::PrintToString(layout);
    EXPECT_THAT(output.error, HasSubstr("rank 0"));
    EXPECT_EQ(read_metrics(in("m")).size(), 1u);
    EXPECT_TRUE(fs::exists(in("out.nonfinite/step-1-rank-0.safetensors")));
    EXPECT_EQ(read_safetensors(in("out/model.safetensors")).at("transformer.wte.weight").bytes,
              read_safetensors(in("model/model.safetensors")).at("transformer.wte.weight").bytes);
    for (const char* name : {"out", "out.nonfinite", "m"}) fs::remove_all(in(name));
  }
}

TEST_F(NonFinite, IsSkippedAndATrainingWithoutItIsAsBefore) {
  write_model(2e38F, true);
  const Output output =
      weft_command(train_model({"--steps", "2", "--on-nonfinite", "skip", "--strategy", "none"}));
  EXPECT_EQ(output.exit_code, 1) << "no step is finite";
  EXPECT_THAT(output.error, HasSubstr("of unit prologue"));
  write_model(0.1F, true);
  const auto losses = [&](const Words& more) {
    expect_success(train_model(Words{"--steps", "4", "--metrics", in("m"), "-n", "2"} + more));
    std::vector<double> found;
    for (const nlohmann::json& line : read_metrics(in("m"))) found.push_back(line.at("loss"));
    return found;
  };
  EXPECT_EQ(losses({"--on-nonfinite", "skip"}), losses({})) << "draws the same masks";
}

}  // namespace
}  // namespace weft::test

// `weft convert` from every format and layout to every other one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "command/command.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<double> losses_of(const std::string& metrics) {
  std::vector<double> losses;
  for (const auto& line : read_metrics(metrics)) losses.push_back(line.at("loss"));
  return losses;
}

class Convert : public CommandTest {
 protected:
  void SetUp() override { copy_trained_model(); }
  std::string weights(const std::string& folder) const {
    return read_bytes(in(folder) + "/model.safetensors");
  }
  Words convert(const std::string& from, const std::string& to, const Words& more = {}) const {
    return Words{"convert", in(from), in(to)} + more;
  }
};

TEST_F(Convert, ThereAndBackThroughEveryFormIsTheSameFile) {
  folder_.file("out/tokenizer.json", "{}");
  const Words forms[] = {{"--format", "pytorch"},
                         {"--shard", "--size-per-shard", "1"},
                         {"--shard", "--format", "pytorch"},
                         {"--dtype", "fp64"},
                         {}};
  for (const Words& form : forms) {
    SCOPED_TRACE(testing::PrintToString(form));
    expect_success(convert("out", "other", form + Words{"--weights-only"}));
    EXPECT_EQ(read_bytes(in("other/tokenizer.json")), "{}");
    EXPECT_FALSE(fs::exists(in("other/training_state")));
    expect_success(convert("other", "back", {"--dtype", "fp32"}));
    EXPECT_TRUE(weights("back") == weights("out"));
    EXPECT_EQ(read_bytes(in("back/config.json")), read_bytes(in("out/config.json")));
  }
  expect_success(convert("out", "weights.bin", {"--weights-only"}));
  expect_success(convert("weights.bin", "weights.safetensors"));
  EXPECT_TRUE(read_bytes(in("weights.safetensors")) == weights("out"));
}

TEST_F(Convert, SucceedsWhereItsMessageCannotBeWritten) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[0]);
  const Descriptor closed(ends[1]), full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  for (const int error : {closed.get(), full.get()}) {
    launch::Process process(Words{WEFT_PROGRAM} + convert("out", "other"), {.error_fd = error});
    EXPECT_EQ(process.finish().exit_code, 0);
    EXPECT_TRUE(weights("other") == weights("out"));
    fs::remove_all(in("other"));
  }
}

TEST_F(Convert, RoundsTheWeightsToTheDtypeAndSaysSoInTheConfiguration) {
  nlohmann::json config = nlohmann::json::parse(read_bytes(in("out/config.json")));
  config["torch_dtype"] = "float32";
  folder_.file("out/config.json", config.dump());
  for (const auto& [dtype, name, torch_name, error] :
       {std::tuple{"bf16", "BF16", "bfloat16", 0.005}, {"fp16", "F16", "float16", 0.0006}}) {
    expect_success(convert("out", "small", {"--dtype", dtype, "--weights-only"}));
    for (const auto& [entry, tensor] : read_safetensors(in("small/model.safetensors")))
      EXPECT_EQ(tensor.dtype, name) << entry;
    EXPECT_EQ(nlohmann::json::parse(read_bytes(in("small/config.json"))).at("torch_dtype"), torch_name);
    expect_success(convert("small", "back", {"--dtype", "fp32"}));
    const RawTensors before = read_safetensors(in("out/model.safetensors"));
    for (const auto& [entry, tensor] : read_safetensors(in("back/model.safetensors")))
      EXPECT_LT(relative_difference(float_values(tensor), float_values(before.at(entry))), error) << entry;
  }
}

TEST_F(Convert, ATrainingStateInOtherPartsResumesTheSame) {
  const Words rest = {"--steps", "4", "--strategy", "torch_ddp", "-n", "2"};
  expect_success(train({"--steps", "2", "--strategy", "torch_ddp", "-n", "2", "--output", in("two")}));
  expect_success(train(rest + Words{"--resume", in("two"), "--metrics", in("as_it_was")}));
  const std::pair<Words, size_t> layouts[] = {{{}, 2}, {{"--parts", "1"}, 1}, {{"--parts", "3"}, 3}};
  for (const auto& [flags, parts] : layouts) {
    SCOPED_TRACE(parts);
    expect_success(convert("two", "other", flags));
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(in("other/training_state")))
      files += entry.path().filename().string().starts_with("part-");
    EXPECT_EQ(files, parts);
    expect_success(train(rest + Words{"--resume", in("other"), "--metrics", in("converted")}));
    EXPECT_EQ(losses_of(in("converted")), losses_of(in("as_it_was")));
    fs::remove(in("converted"));
  }
}

TEST_F(Convert, InPlaceReplacesTheWeightsAlone) {
  expect_success(convert("out", "out", {"--format", "pytorch"}));
  EXPECT_TRUE(fs::exists(in("out/pytorch_model.bin")));
  EXPECT_FALSE(fs::exists(in("out/model.safetensors")));
  EXPECT_TRUE(fs::exists(in("out/training_state/index.json")));
}

TEST_F(Convert, SaysWhatItCannotDo) {
  EXPECT_TRUE(refuses({"convert", in("out")}, 2, {"OUTPUT"}));
  EXPECT_TRUE(refuses(convert("nowhere", "other"), 1, {"nowhere"}));
  EXPECT_TRUE(refuses(convert("out", "other", {"--dtype", "int8"}), 1, {"--dtype is \"int8\"", "bf16"}));
  EXPECT_TRUE(refuses(convert("out", "other", {"--format", "npz"}), 1, {"--format is \"npz\"", "pytorch"}));
  EXPECT_TRUE(refuses(convert("out", "other", {"--dtype", "bf16"}), 1, {"training state", "--weights-only"}));
  EXPECT_TRUE(refuses(convert("out", "other.bin"), 1, {"a single file of weights cannot", "--weights-only"}));
  EXPECT_TRUE(refuses(convert("out", "other", {"--parts", "0"}), 2, {"--parts is \"0\""}));
  EXPECT_TRUE(
      refuses(convert("out", "other", {"--parts", "2", "--weights-only"}), 1, {"exclude each other"}));
  EXPECT_TRUE(
      refuses(convert("out", "other", {"--size-per-shard", "2"}), 1, {"--size-per-shard needs --shard"}));
  EXPECT_FALSE(fs::exists(in("other")));
  EXPECT_THAT(expect_success({"convert", "--help"}).out, HasSubstr("Example: weft convert"));
}

}  // namespace
}  // namespace weft::test

// `weft plan`: its estimates, and the flags that it refuses.
#include <gmock/gmock.h>

#include "train/command.hpp"

namespace weft::test {
namespace {

constexpr int kFailed = 1;

class PlanCommand : public CommandTest {
 protected:
  Words plan(const Words& more = {}) const { return Words{"plan", "--model", config_} + more; }
};

TEST_F(PlanCommand, RefusesSizesThatAreOutOfRange) {
  EXPECT_TRUE(refuses(plan({"--world-size", "0"}), kFailed, {"--world-size is 0, must be from 1 to"}));
  EXPECT_TRUE(refuses(plan({"--batch-size", "9223372036854775807"}), kFailed,
                      {"--batch-size is 9223372036854775807, must be from 1 to"}));
  EXPECT_TRUE(
      refuses(plan({"--sequence-length", "33"}), kFailed, {"--sequence-length is 33, must be from 1 to 32"}));
  EXPECT_TRUE(refuses(plan({"--explain", "--tensor-size", "-1"}), kFailed,
                      {"--tensor-size is -1, must be from 1 to"}));
  EXPECT_TRUE(refuses(plan({"--tensor-size", "2"}), kFailed, {"--tensor-size needs --explain"}));
  for (const char* memory : {"inf", "nan", "-1GiB", "1gb", "8 GiB", "0", ""})
    EXPECT_TRUE(refuses(plan({"--memory", memory}), kFailed,
                        {"--memory is \"" + std::string(memory) + "\", must be a number of bytes above 0"}));
}

TEST_F(PlanCommand, EstimatesTheBytesOfOneRank) {
  const auto estimate = [&](const Words& more) {
    const nlohmann::json rows = nlohmann::json::parse(
        weft_succeeds(plan(Words{"--json", "--world-size", "4", "--strategy", "torch_ddp"} + more)).out);
    EXPECT_EQ(rows.size(), 1u);
    return rows.at(0).at("bytes");
  };
  const nlohmann::json single = estimate({}), half = estimate({"--precision", "bf16"});
  EXPECT_EQ(single.at("states"), 2 * single.at("parameters").get<int64_t>());
  EXPECT_EQ(single.at("parameters"), 2 * half.at("parameters").get<int64_t>());
  EXPECT_EQ(half.at("masters"), single.at("parameters"));
  const nlohmann::json longer = estimate({"--batch-size", "2"});
  EXPECT_GT(longer.at("activations"), single.at("activations"));
  EXPECT_EQ(longer.at("parameters"), single.at("parameters"));
}

TEST_F(PlanCommand, ExplainsWhatItSplits) {
  const Output output = weft_succeeds(
      {"plan", "--model", config_, "--explain", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "-o",
       "enable_sequence_parallelism=true", "-o", "sequence_parallelism_mode=split_gather"});
  EXPECT_NE(output.out.find("\nsplit       "), std::string::npos) << output.out;
  EXPECT_NE(output.out.find("ln_2"), std::string::npos) << output.out;
}

}  // namespace
}  // namespace weft::test

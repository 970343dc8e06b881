// Ranks that share devices, and mistakes that the command makes on none.
#include <gmock/gmock.h>

#include "command/command.hpp"
#include "command/newer_plugin.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class OnSimulatedDevices : public CommandTest {
 protected:
  // Trains on `ranks` ranks of a machine with `devices`.
  Output train_on(const char* devices, const char* ranks) {
    return weft_command_with(
        std::string("WEFT_SIM_DEVICES=") + devices,
        train({"--strategy", "torch_ddp", "-n", ranks, "--steps", "3", "--device", "sim"}));
  }
};

TEST_F(OnSimulatedDevices, RanksThatShareOneAreToldSo) {
  const Output one = train_on("1", "2"), two = train_on("3", "4"), enough = train_on("2", "2");
  for (const Output& output : {one, two, enough}) {
    EXPECT_EQ(output.exit_code, 0) << output.error;
    EXPECT_THAT(output.error, Not(HasSubstr("reported: ")));
  }
  EXPECT_THAT(one.error, HasSubstr("2 ranks of this machine share one"));
  EXPECT_THAT(two.error, HasSubstr("4 ranks of this machine share 3 of them"));
  EXPECT_THAT(enough.error, Not(HasSubstr("share")));
}

TEST_F(OnSimulatedDevices, WithTooLittleMemoryTheErrorSaysHowToTakeLess) {
  const Output little = weft_command_with(
      "WEFT_ACCELERATOR_MEMORY=1MiB",
      train({"--strategy", "torch_ddp", "-n", "1", "--steps", "3", "--batch-size", "64", "--device", "sim"}));
  EXPECT_EQ(little.exit_code, 1) << little.error;
  EXPECT_THAT(little.error, HasSubstr("out of memory of sim"));
  EXPECT_THAT(little.error, HasSubstr("use a smaller --batch-size"));
}

TEST_F(OnSimulatedDevices, WithoutOneTheJobIsRefused) {
  const Output none = train_on("0", "1");
  EXPECT_EQ(none.exit_code, 1) << none.error;
  EXPECT_THAT(none.error, HasSubstr("device sim: this"));
}

TEST_F(OnSimulatedDevices, KeepWhatTheChecksOfDevicesAsk) {
  const std::string folder = std::string(WEFT_TEST_PLUGIN_FOLDER) + "/sim";
  const Output all = weft_command({"plugins", "validate", "--timeout", "300", folder + "/" + kOld});
  EXPECT_EQ(all.exit_code, 0) << all.out << all.error;
  EXPECT_THAT(all.out, HasSubstr("passed 2 ranks, a device each: all_reduce sums over the ranks\n"));
  EXPECT_THAT(all.out, HasSubstr(", 0 failed\n"));
  const Output none = weft_command_with("WEFT_SIM_DEVICES=0", {"plugins", "validate", folder + "/" + kOld});
  EXPECT_EQ(none.exit_code, 0) << none.out << none.error;
  EXPECT_THAT(
      none.out,
      HasSubstr("passed the table: is refused on all ranks alike: device sim: this process may use none"));
  EXPECT_THAT(none.out, Not(HasSubstr("memory: ")));
}

}  // namespace
}  // namespace weft::test

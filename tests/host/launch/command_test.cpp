#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "host/launch/process.hpp"

namespace weft::launch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Output weft_run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {WEFT_PROGRAM, "run"});
  return Process(arguments).finish();
}

TEST(WeftRun, RefusesOtherHostsAndSaysWhatToUse) {
  for (const char* flag : {"--hosts", "--hostfile", "--include", "--exclude"}) {
    const Output output = weft_run({"-n", "2", flag, "a,b", "true"});
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_THAT(output.error, StartsWith(fmt::format("weft: run: {} is \"a,b\", but", flag)));
    EXPECT_THAT(output.error, HasSubstr("torchrun, srun or mpirun"));
    EXPECT_THAT(weft_run({"-n", "2", flag, "", "true"}).error,
                StartsWith(fmt::format("weft: run: {} is \"\", but", flag)));
  }
}

TEST(WeftRun, RefusesWrongFlags) {
  EXPECT_THAT(weft_run({"-n", "2", "--hots", "a", "true"}).error,
              HasSubstr("no flag --hots; did you mean \"--hosts\"?"));
  EXPECT_THAT(weft_run({"true"}).error, HasSubstr("-n is missing"));
  EXPECT_THAT(weft_run({"-n", "2"}).error, HasSubstr("no program"));
  EXPECT_EQ(weft_run({"-n", "0", "true"}).exit_code, 2);
  EXPECT_EQ(weft_run({"-n", "2", "--master-addr", "192.0.2.77", "true"}).exit_code, 2);
  EXPECT_THAT(weft_run({"--master-addr", "-n", "1", "true"}).error,
              StartsWith("weft: run: --master-addr needs a value, but -n follows"));
  EXPECT_THAT(weft_run({"--master-addr=", "-n", "1", "true"}).error,
              StartsWith("weft: run: --master-addr needs a value, but nothing follows its ="));
}

TEST(WeftRun, LeavesTheProgramsArgumentsAlone) {
  const std::vector<std::string> words = {"echo", "-n 3", "--hosts", "--", "[1,2]", "--help"};
  std::vector<std::string> arguments = {"-n", "1"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  EXPECT_EQ(weft_run(arguments).out, "-n 3 --hosts -- [1,2] --help\n");
  arguments.insert(arguments.begin() + 2, "--");
  EXPECT_EQ(weft_run(arguments).out, "-n 3 --hosts -- [1,2] --help\n");
}

TEST(WeftRun, HasTheExitCodeOfTheFirstFailure) {
  EXPECT_EQ(weft_run({"-n", "2", RANK_PROGRAM, "rank", "0:wait", "1:exit=7"}).exit_code, 7);
  EXPECT_EQ(weft_run({"-n", "2", "/no/such/program"}).exit_code, 127);
  EXPECT_EQ(weft_run({"-n", "2", "true"}).exit_code, 0);
}

}  // namespace
}  // namespace weft::launch

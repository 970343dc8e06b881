// `weft train` under the launchers of others: the ranks meet, and train what one rank trains.
#include <gmock/gmock.h>

#include <cstdlib>

#include "command/command.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

class Launchers : public CommandTest {
 protected:
  Words job(const std::string& metrics) const {
    return Words{WEFT_PROGRAM} + train({"--steps", "4", "--no-shuffle", "--metrics", in(metrics)});
  }
  // Trains with this command in front, on two ranks, and compares.
  void expect_loss_of_one_rank(const Words& launcher) {
    const Output output =
        launch::Process(launcher + job("many"), {.environment = {{"OMP_NUM_THREADS", "1"}}}).finish();
    ASSERT_EQ(output.exit_code, 0) << output.error;
    EXPECT_THAT(output.error, testing::HasSubstr("2 ranks, strategy torch_ddp"));
    expect_success(train({"--steps", "4", "--no-shuffle", "--strategy", "none", "--metrics", in("one")}));
    const auto many = read_metrics(in("many")), one = read_metrics(in("one"));
    ASSERT_EQ(many.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      const double loss = one[i].at("loss");
      EXPECT_NEAR(many[i].at("loss").get<double>(), loss, 1e-6 * loss) << "step " << i;
    }
  }
};

TEST_F(Launchers, TorchrunTrains) {
  WEFT_NEEDS_ORACLE();
  expect_loss_of_one_rank({oracle_python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                           "2", "--no-python"});
}

TEST_F(Launchers, TorchrunHasTheExitCodeOfAFailedJob) {
  WEFT_NEEDS_ORACLE();
  const Output output = launch::Process(Words{oracle_python(), "-m", "torch.distributed.run", "--standalone",
                                              "--nproc-per-node", "2", "--no-python", WEFT_PROGRAM} +
                                        train({"--steps", "1", "--batch-size", "3"}))
                            .finish();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.error,
              testing::AllOf(testing::HasSubstr("batch of 3 samples"), testing::HasSubstr("the 2")));
}

TEST_F(Launchers, MpirunTrains) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "needs mpirun (Debian: openmpi-bin), which is not on PATH";
  expect_loss_of_one_rank({"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"});
}

}  // namespace
}  // namespace weft::test

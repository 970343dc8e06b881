// Plugins that end, crash or hang the process in their init: no job ends as if it had succeeded, and the
// plugin is named.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>

#include "command/command.hpp"
#include "host/plugin_root.hpp"
#include "support/sanitized.hpp"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kNamed = "in the init of shard_policy \"gpt2\" 9.0.0";

class PluginFault : public CommandTest {
 protected:
  void SetUp() override {
    root_.install("gpt2_with_a_fault", "gpt2", "9.0.0",
                  [](nlohmann::json& manifest) { manifest["libraries"][0]["provides"] = {"gpt2"}; });
  }
  Output run(const std::string& fault, const Words& words) const {
    return launch::Process(
               Words{"env", "WEFT_TEST_FAULT=" + fault, weft_program()} + words,
               {.environment = {{"OMP_NUM_THREADS", "1"}, {"WEFT_PLUGIN_ADD_PATH", root_.path().string()}},
                .input = "",
                .error_fd = -1})
        .finish();
  }
  // The policy is loaded in each of two ranks.
  Output train_ranks(const std::string& fault, const Words& more = {}) const {
    return run(fault, train(Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2", "--steps",
                                  "1", "--output", in("out")} +
                            more));
  }
  Output explain(const std::string& fault) const {
    return run(fault, {"plan", "--model", config_, "--explain", "--tensor-size", "2"});
  }

  weft::testing::PluginRoot root_;
};

TEST_F(PluginFault, MakesNoJobOfRanksSucceedThatEndsEarly) {
  for (const char* fault : {"exit", "quick_exit", "_exit"}) {
    const Output output = train_ranks(fault);
    EXPECT_EQ(output.exit_code, 1) << fault;
    EXPECT_THAT(output.error, HasSubstr(kNamed)) << fault;
    EXPECT_FALSE(std::filesystem::exists(in("out/model.safetensors"))) << fault;
  }
}

TEST_F(PluginFault, MakesNoCommandSucceedThatEndsEarly) {
  for (const char* fault : {"exit", "quick_exit"}) {
    const Output output = explain(fault);
    EXPECT_EQ(output.exit_code, 1) << fault;
    EXPECT_THAT(output.error, HasSubstr(kNamed)) << fault;
  }
}

TEST_F(PluginFault, IsNamedWhereItCrashes) {
  const std::pair<const char*, int> faults[] = {{"abort", SIGABRT}, {"trap", SIGILL}, {"recursion", SIGSEGV}};
  for (const auto& [fault, signal] : faults) {
    for (const Output& output : {explain(fault), train_ranks(fault)}) {
      EXPECT_EQ(output.exit_code, 128 + signal) << fault << "\n" << output.error;
      EXPECT_THAT(output.error, HasSubstr(kNamed)) << fault;
    }
  }
}

TEST_F(PluginFault, EndsTheJobAfterItsTimeoutWhereItHangs) {
  constexpr double kTimeout = 3, kLeeway = 5;
  Output output;
  const auto seconds_of = [&](const std::string& fault) {
    const auto start = std::chrono::steady_clock::now();
    output = train_ranks(fault, {"--timeout", std::to_string(kTimeout)});
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double without = seconds_of("none");  // much of it the start, where many compile
  const double took = seconds_of("loop");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.error,
              AllOf(HasSubstr("gpt2"), HasSubstr("the init has not ended"), HasSubstr("--timeout")));
  if (!kSanitized) EXPECT_LT(took, without + kTimeout + kLeeway);
}

TEST_F(PluginFault, IsSaidOfNoPluginThatLoads) {
  const Output output = explain("none");
  EXPECT_THAT(output.error, Not(HasSubstr("in the init")));
}

}  // namespace
}  // namespace weft::test

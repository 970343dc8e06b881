// `weft check`.
#include <gmock/gmock.h>

#include "command/command.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;

TEST(Check, SaysWhatThereIs) {
  const Output output = expect_success({"check"});
  for (const char* fact : {"weft ", "compiler ", "libtorch ", "2.11.0", "kernels ", "gloo ", "cuda ", "nccl ",
                           "plugins ", "--device cuda is refused"})
    EXPECT_THAT(output.out, HasSubstr(fact));
  const nlohmann::json report = nlohmann::json::parse(expect_success({"check", "--json"}).out);
  EXPECT_EQ(report.at("problems"), nlohmann::json::array());
  EXPECT_EQ(report.at("libtorch"), "2.11.0");
  EXPECT_GE(report.at("plugins"), 4);
}

TEST(Check, FailsWhereNoStrategyCanBeLoaded) {
  const Output output = launch::Process({"env", "WEFT_PLUGIN_DISABLE=*", WEFT_PROGRAM, "check"}).finish();
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.out, HasSubstr("no strategy"));
  EXPECT_THAT(output.out, HasSubstr("WEFT_PLUGIN_ADD_PATH"));
}

}  // namespace
}  // namespace weft::test

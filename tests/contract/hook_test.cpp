// The suite for hooks names what is wrong with each wrong hook, and passes a right one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "contract/hook.hpp"
#include "support/expect_error.hpp"

namespace weft::contract {
namespace {

struct Mistake {
  const char* hook;
  const char* check;  // one that fails; empty: none
};

class HookSuite : public testing::TestWithParam<Mistake> {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }
};

TEST_P(HookSuite, NamesTheMistake) {
  std::vector<Check> checks;
  check_hook(GetParam().hook, "{}", [&](const Check& check) { checks.push_back(check); });
  std::string text, failed;
  for (const Check& check : checks)
    if (!check.passed) {
      text += check.name + ": " + check.text + "\n";
      if (failed.empty()) failed = check.name;
    }
  EXPECT_EQ(failed, GetParam().check) << text;
  EXPECT_GT(checks.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(
    Hooks, HookSuite,
    testing::Values(Mistake{"right", ""}, Mistake{"asks_too_late", "1 rank: runs to its end"},
                    Mistake{"asks_for_nothing", "1 rank: runs to its end"},
                    Mistake{"fails", "1 rank: runs to its end"},
                    Mistake{"forgets", "1 rank: a restored hook has the state that was saved"},
                    Mistake{"shares", "1 rank: a new hook begins anew, whatever another one has seen"},
                    Mistake{"takes_any_state", "1 rank: the state of something else is INVALID_ARGUMENT"}),
    [](const testing::TestParamInfo<Mistake>& info) { return info.param.hook; });

TEST(HookFactory, IsRefusedAHookThatBreaksTheRules) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  const auto nothing = [](const Check&) {};
  EXPECT_ERROR(check_hook("misnamed", "{}", nothing), WEFT_FAILED_PRECONDITION, "misnamed", "another");
  EXPECT_ERROR(check_hook("has_half", "{}", nothing), WEFT_FAILED_PRECONDITION, "has_half", "restore");
  EXPECT_ERROR(check_hook("makes_none", "{}", nothing), WEFT_FAILED_PRECONDITION, "makes_none");
  EXPECT_ERROR(check_hook("right", R"({"steps": 3})", nothing), WEFT_INVALID_ARGUMENT, "steps");
}

}  // namespace
}  // namespace weft::contract

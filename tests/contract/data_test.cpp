// The suite for data sets names what is wrong with each wrong library, and passes a right one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "contract/data.hpp"
#include "support/expect_error.hpp"

namespace weft::contract {
namespace {

struct Mistake {
  const char* name;
  const char* check;  // one that fails; empty: none
};

class DataSuite : public testing::TestWithParam<Mistake> {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }
};

TEST_P(DataSuite, NamesTheMistake) {
  std::string failed;
  int passed = 0;
  check_data(GetParam().name, "{}", "anywhere", "", [&](const Check& check) {
    passed += check.passed;
    if (!check.passed) failed += check.name + "\n" + check.text + "\n";
  });
  if (std::string(GetParam().check).empty()) {
    EXPECT_EQ(failed, "");
    EXPECT_EQ(passed, 9);
  } else {
    EXPECT_NE(failed.find(std::string(GetParam().check) + "\n"), std::string::npos) << failed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, DataSuite,
    testing::Values(Mistake{"right", ""}, Mistake{"other_every_time", "a sample is the same again"},
                    Mistake{"other_in_an_epoch", "a sample of an epoch is the same again"},
                    Mistake{"forgets_the_order", "a batch has the samples of its indices, in their order"},
                    Mistake{"has_one_row", "a batch has the samples of its indices, in their order"},
                    Mistake{"shares_a_buffer", "several threads get the same samples"},
                    Mistake{"other_when_opened", "data that are opened again are the same"}),
    [](const testing::TestParamInfo<Mistake>& info) { return info.param.name; });

TEST_F(DataSuite, RefusesWhatHasNoSamples) {
  const auto nothing = [](const Check&) {};
  EXPECT_ERROR(check_data("right", "{}", "", "", nothing), WEFT_INVALID_ARGUMENT, "--data", "right");
  EXPECT_ERROR(check_data("right", R"({"size": 0})", "anywhere", "", nothing), WEFT_INVALID_ARGUMENT,
               "anywhere", "0 samples");
  EXPECT_ERROR(check_data("right", R"({"sise": 1})", "anywhere", "", nothing), WEFT_INVALID_ARGUMENT,
               "did you mean \"size\"?");
  EXPECT_ERROR(check_data("nothing", "{}", "anywhere", "", nothing), WEFT_FAILED_PRECONDITION, "wrong_data",
               "no data set");
}

}  // namespace
}  // namespace weft::contract

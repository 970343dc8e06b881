// The suite for operations names what is wrong with each wrong operation, and passes right ones.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "contract/operation.hpp"
#include "support/expect_error.hpp"

namespace weft::contract {
namespace {

struct Mistake {
  const char* operation;
  const char* check;  // a part of the line of one that fails; empty: none
};

class OperationSuite : public testing::TestWithParam<Mistake> {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);  // ranks are forks
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS ":" WEFT_TEST_OPERATIONS, 1);
    setenv("WEFT_LOG", "off", 1);
  }
};

TEST_P(OperationSuite, NamesTheMistake) {
  std::string failed;
  int passed = 0;
  check_operation(GetParam().operation, "", [&](const Check& check) {
    passed += check.passed;
    if (!check.passed) failed += check.name + ": " + check.text + "\n";
  });
  if (std::string(GetParam().check).empty()) {
    EXPECT_EQ(failed, "");
    EXPECT_GT(passed, 10);
  } else {
    EXPECT_NE(failed.find(GetParam().check), std::string::npos) << failed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operations, OperationSuite,
    testing::Values(Mistake{"test.right_factors", ""}, Mistake{"sample.low_rank", ""},
                    Mistake{"test.doubled", ""},
                    Mistake{"test.stopped_factors", "gradients are the derivatives of the loss"},
                    Mistake{"test.half_stopped", "gradients are the derivatives of the loss"},
                    Mistake{"test.same_factors", "tp_size 2, c_"},
                    Mistake{"test.whole_factors", "tp_size 2, c_"}, Mistake{"sample.low_rank_stable", ""},
                    Mistake{"test.stable_right", ""}, Mistake{"test.stable_one_way", ""},
                    Mistake{"test.stable_half", "gradients are the derivatives of the loss"},
                    Mistake{"test.stable_forgets", "without the gradient of added parameter 0"},
                    Mistake{"test.stable_narrow", "forward made an output"},
                    Mistake{"test.stable_misnamed", "must be called CHILD.NAME"},
                    Mistake{"test.stable_misshapen", "which runs along"},
                    Mistake{"test.stable_whole", "tp_size 2, "},
                    Mistake{"test.stable_fails", "there is no quince left"},
                    Mistake{"test.unknown", "has a revision of it"}),
    [](const testing::TestParamInfo<Mistake>& info) {
      return std::string(info.param.operation).substr(std::string(info.param.operation).find('.') + 1);
    });

TEST_F(OperationSuite, RefusesAWrongTable) {
  const auto check = [](const char* operation) { check_operation(operation, "", [](const Check&) {}); };
  EXPECT_ERROR(check("test.stable_saves_too_much"), WEFT_FAILED_PRECONDITION, "test.stable_saves_too_much/1",
               "num_saved is 17, must be at most 16");
  EXPECT_ERROR(check("test.stable_no_config"), WEFT_FAILED_PRECONDITION, "adapter_config is no JSON object");
}

TEST_F(OperationSuite, AsksForAModelWithSuchLayers) {
  EXPECT_ERROR(check_operation("test.of_nothing", "", [](const Check&) {}), WEFT_NOT_FOUND, "Nothing",
               "--model");
}

}  // namespace
}  // namespace weft::contract

// The suite of objectives: it names the mistakes of wrong ones, and passes right ones.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "contract/contract.hpp"
#include "contract/objective.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::contract {
namespace {

constexpr const char* kConfig =
    R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 16, "n_head": 2, "n_layer": 2,
        "n_positions": 32, "vocab_size": 64})";

struct Mistake {
  const char* name;
  const char* check;  // one that fails; empty: none
};

class ObjectiveSuite : public testing::TestWithParam<Mistake> {
 protected:
  static void SetUpTestSuite() {
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS ":" WEFT_TEST_OBJECTIVES, 1);
  }
  std::string failures_of(const std::string& name, const std::string& options = "{}") {
    std::string failed;
    passed_ = 0;
    check({"objective", name, options, folder_.file("config.json", kConfig), ""}, [&](const Check& check) {
      passed_ += check.passed;
      if (!check.passed) failed += check.name + "\n" + check.text + "\n";
    });
    return failed;
  }

  test::TemporaryFolder folder_;
  int passed_ = 0;
};

TEST_P(ObjectiveSuite, NamesTheMistake) {
  const std::string failed = failures_of(GetParam().name);
  EXPECT_NE(failed.find(GetParam().check), std::string::npos) << failed;
  EXPECT_NE(failed, "");
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, ObjectiveSuite,
    testing::Values(Mistake{"means_over_the_batch", "terms and counts are sums over samples\n"},
                    Mistake{"compares_samples", "terms and counts are sums over samples\n"},
                    Mistake{"is_detached", "has no gradient; compute it from the outputs"},
                    Mistake{"has_half_a_gradient", "gradients are the derivatives of the terms\n"},
                    Mistake{"changes_logits", "changed the output \"logits\" in place"},
                    Mistake{"changes_labels", "changed the field \"labels\" in place"},
                    Mistake{"is_nan_without_labels", "samples without a label that counts add 0\n"},
                    Mistake{"other_every_time", "the same outputs and labels have the same loss\n"},
                    Mistake{"counts_calls", "counts depend on the batch alone\n"},
                    Mistake{"counts_below_zero", "must have 0 or more"},
                    Mistake{"forgets_a_term", "the terms are loss, but those of counts() are loss, more"},
                    Mistake{"keeps_positions", "must be one element in floating point"},
                    Mistake{"sums_in_half", "outputs in half precision are summed in fp32\n"},
                    Mistake{"takes_any_shape", "labels of another shape are refused\n"},
                    Mistake{"fails_by_itself", "a field that is missing is named\n"},
                    Mistake{"causal_lm", "its name is none of Weft's own objectives\n"},
                    Mistake{"nothing", "made no loss"}),
    [](const testing::TestParamInfo<Mistake>& info) { return info.param.name; });

TEST_F(ObjectiveSuite, PassesARightOne) {
  EXPECT_EQ(failures_of("right"), "");
  EXPECT_GE(passed_, 25);
  EXPECT_EQ(failures_of("focal", R"({"gamma": 1.5})"), "");
}

TEST_F(ObjectiveSuite, RefusesWhatItHasNoUseFor) {
  EXPECT_NE(failures_of("right", R"({"lables": ""})").find("did you mean \"labels\"?"), std::string::npos);
  EXPECT_ERROR(check_objective("right", "{}", "samples.safetensors", "", [](const Check&) {}),
               WEFT_INVALID_ARGUMENT, "--model");
}

}  // namespace
}  // namespace weft::contract

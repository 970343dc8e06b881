// The suite for tokenizers names what is wrong with each wrong class, and passes a right one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "contract/tokenizer.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::contract {
namespace {

struct Mistake {
  const char* class_name;
  const char* check;  // one that fails; empty: none
};

class TokenizerSuite : public testing::TestWithParam<Mistake> {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }
};

TEST_P(TokenizerSuite, NamesTheMistake) {
  const test::TemporaryFolder folder;
  folder.file("tokenizer_config.json",
              std::string(R"({"tokenizer_class": ")") + GetParam().class_name + "\"}");
  std::vector<Check> checks, failed;
  check_tokenizer(GetParam().class_name, folder.path(), [&](const Check& check) { checks.push_back(check); });
  std::string text;
  for (const Check& check : checks)
    if (!check.passed) text += check.name + ": " + check.text + "\n";
  if (std::string(GetParam().check).empty()) {
    EXPECT_EQ(text, "");
    EXPECT_GT(checks.size(), 5u);
    return;
  }
  const bool named = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return !check.passed && check.name == GetParam().check;
  });
  EXPECT_TRUE(named) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Classes, TokenizerSuite,
    testing::Values(Mistake{"RightBytes", ""}, Mistake{"CountsCalls", "the same text has the same ids again"},
                    Mistake{"MarksText",
                            "the text of ids stays the same when it is encoded and decoded again"},
                    Mistake{"WritesBackwards", "further ids only append to the text"},
                    Mistake{"FindsTheNext", "a spelling is found under its id"},
                    Mistake{"EncodesNothing", "texts have ids"},
                    Mistake{"RefusesEveryText", "texts have ids"},
                    Mistake{"SharesABuffer", "several threads get the same ids"}),
    [](const testing::TestParamInfo<Mistake>& info) { return info.param.class_name; });

TEST(TokenizerFolder, IsRefusedForAnotherClass) {
  const test::TemporaryFolder folder;
  folder.file("tokenizer_config.json", R"({"tokenizer_class": "Other"})");
  const auto nothing = [](const Check&) {};
  EXPECT_ERROR(check_tokenizer("RightBytes", "", nothing), WEFT_INVALID_ARGUMENT, "--model", "RightBytes");
  EXPECT_ERROR(check_tokenizer("RightBytes", folder.path(), nothing), WEFT_INVALID_ARGUMENT, "Other",
               "RightBytes");
}

}  // namespace
}  // namespace weft::contract

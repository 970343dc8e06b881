// The suite for checkpoint formats names what is wrong with each wrong format, and passes right ones.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "contract/checkpoint_io.hpp"
#include "support/expect_error.hpp"

namespace weft::contract {
namespace {

struct Mistake {
  const char* format;
  const char* check;  // the one that fails; empty: none
};

class FormatSuite : public testing::TestWithParam<Mistake> {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  }
};

// Returns the checks that failed, with their texts.
std::vector<Check> failures(const std::string& format, const std::string& options = "{}") {
  std::vector<Check> failed;
  int passed = 0;
  check_checkpoint_io(format, options, [&](const Check& check) {
    if (check.passed) ++passed;
    if (!check.passed) failed.push_back(check);
  });
  EXPECT_GT(passed, 2);
  return failed;
}

TEST_P(FormatSuite, NamesTheMistake) {
  const std::vector<Check> failed = failures(GetParam().format);
  std::string names, texts;
  for (const Check& check : failed) {
    if (names.find(check.name) == std::string::npos) names += check.name + "\n";
    texts += check.name + ": " + check.text + "\n";
  }
  if (std::string(GetParam().check).empty()) {
    EXPECT_EQ(texts, "");
  } else {
    EXPECT_NE(names.find(GetParam().check), std::string::npos) << texts;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, FormatSuite,
    testing::Values(
        Mistake{"Right", ""}, Mistake{"packed", ""}, Mistake{"raw_files", ""}, Mistake{"safetensors", ""},
        Mistake{"pytorch", ""},
        Mistake{"LosesElements", "tensors and metadata are those that were written, whatever the boxes"},
        Mistake{"ForgetsMetadata", "tensors and metadata are those that were written, whatever the boxes"},
        Mistake{"WritesPastStructs", "structs of a newer host are taken"},
        Mistake{"ReadsAnything", "a box that is not in its tensor is refused"},
        Mistake{"TakesEveryOption", "an option that the format does not have is refused"},
        Mistake{"RecognisesFolders", "it recognises what it wrote and nothing else"},
        Mistake{"OwnsEverything", "it owns what it wrote and nothing else"},
        Mistake{"OwnsNothing", "it owns what it wrote and nothing else"},
        Mistake{"KeepsOlderFiles", "a save replaces the older one and no file of others"},
        Mistake{"CommitsHoles", "a save that leaves an element out fails"},
        Mistake{"LeavesWhatItAbandons", "an abandoned save changes nothing"},
        Mistake{"RemovesFirst", "an abandoned save changes nothing"},
        Mistake{"TakesNoLock", "a second save to the same place at a time is refused"},
        Mistake{"HidesAFullDisk", "a full disk is known before anything is written"},
        Mistake{"RepairsFiles", "a truncated file is refused"},
        Mistake{"AbortsOnDamage", "a damaged file is read or refused"},
        Mistake{"RemovesAtCommit", "a save that is killed leaves one whole checkpoint"}),
    [](const testing::TestParamInfo<Mistake>& info) { return info.param.format; });

TEST_F(FormatSuite, PassesShards) {
  for (const Check& check : failures("safetensors", R"({"shard": true, "size_per_shard": 1})"))
    ADD_FAILURE() << check.name << ": " << check.text;
}

TEST_F(FormatSuite, RefusesOptionsThatNoSaveHas) {
  EXPECT_ERROR(failures("packed", R"({"level": 3})"), WEFT_INVALID_ARGUMENT, "level", "size_per_shard");
}

}  // namespace
}  // namespace weft::contract

// The suite for strategies names what is wrong with merges of replicas, and so does a training.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "contract/strategy.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::contract {
namespace {

class Merging : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
    setenv("WEFT_LOG", "off", 1);
  }

  static std::string options(const std::string& mistake) {
    return nlohmann::json{{"mistake", mistake}}.dump();
  }
  static std::vector<Check> checks_of(const std::string& mistake) {
    std::vector<Check> checks;
    check_strategy("wrong_merges", options(mistake), [&](const Check& check) { checks.push_back(check); });
    return checks;
  }
  static std::string text_of(const std::vector<Check>& checks) {
    std::string text;
    for (const Check& check : checks)
      if (!check.passed) text += "  " + check.name + ": " + check.text + "\n";
    return text;
  }
};

TEST_F(Merging, PassesARightOne) {
  const std::vector<Check> checks = checks_of("none");
  EXPECT_EQ(text_of(checks), "");
  EXPECT_GT(checks.size(), 30u);
}

TEST_F(Merging, NamesEachMistake) {
  constexpr const char* kGradients = "2 ranks: published gradients are those of the replica's own samples";
  constexpr const char* kEnds = "2 ranks: runs to its end";
  constexpr const char* kSame = "2 ranks: merged replicas are the same on all ranks";
  constexpr const char* kEvery = "3 ranks, merges: a merge takes every replica into account";
  struct Mistake {
    const char* name;
    const char* check;
    const char* text;
  };
  const std::vector<Mistake> mistakes = {
      {"sums gradients", kGradients, "step 1"},
      {"undoes the host's factor", kGradients, "about 0.50"},
      {"never merges", kEnds, "0 updates"},
      {"has another interval on rank 1", kEnds, "must say the same on all ranks"},
      {"names the tensor axis", kEnds, "data-parallel"},
      {"merges nothing", kSame, "merge_replicas"},
      {"forgets one", kSame, "blocks.0.scale"},
      {"merges copies", kSame, "merge_replicas"},
      {"drifts on one rank", kSame, "ranks"},
      {"sums", "3 ranks, merges: merged before the first update, values stay as they are", "about 3.00"},
      {"takes rank 0's", kEvery, "what rank 1 trained is lost"},
      {"loses the last rank's", kEvery, "what rank 2 trained is lost"},
  };
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.name);
    const std::vector<Check> checks = checks_of(mistake.name);
    EXPECT_TRUE(std::any_of(checks.begin(), checks.end(),
                            [&](const Check& check) {
                              return !check.passed && check.name == mistake.check &&
                                     check.text.find(mistake.text) != std::string::npos;
                            }))
        << "wanted: " << mistake.check << ", found:\n"
        << text_of(checks);
  }
}

TEST_F(Merging, IsComparedInTrainings) {
  using test::JobOptions;
  const auto train = [](World& world, const std::string& mistake) {
    const JobOptions chosen{.strategy = "wrong_merges", .options = options(mistake)};
    Job job = test::boost(world, test::toy(chosen), chosen);
    for (int64_t step = 0; step < 3; ++step)
      job.train_step(test::part_of(test::toy_batch(4, step), 2 * world.rank(), 2 * world.rank() + 2));
  };
  test::on_ranks({2}, [&](World& world) {
    train(world, "none");
    EXPECT_ERROR(train(world, "sums gradients"), WEFT_INTERNAL, "wrong_merges", "own samples, but about");
    EXPECT_ERROR(train(world, "forgets one"), WEFT_INTERNAL, "merge_replicas of strategy wrong_merges");
  });
}

}  // namespace
}  // namespace weft::contract

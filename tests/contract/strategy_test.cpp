// The suite for strategies names what is wrong with each of many wrong ones, and passes a right one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "contract/strategy.hpp"
#include "support/slice.hpp"

namespace weft::contract {
namespace {

std::vector<Check> checks_of(const std::string& strategy, const nlohmann::json& options) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS ":" WEFT_TEST_SAMPLES, 1);
  setenv("WEFT_LOG", "off", 1);
  std::vector<Check> checks;
  check_strategy(strategy, options.dump(), [&](const Check& check) { checks.push_back(check); });
  return checks;
}

std::vector<Check> checks_of(const std::string& mistake) {
  return checks_of("wrong", {{"mistake", mistake}});
}

std::string text_of(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks)
    if (!check.passed) text += "  " + check.name + ": " + check.text + "\n";
  return text;
}

struct Mistake {
  const char* name;
  const char* check;      // one that fails
  const char* text = "";  // a part of what it says
};

constexpr const char* kEnds = "2 ranks: runs to its end";
constexpr const char* kGradients = "2 ranks: published gradients are the sums over the ranks";
constexpr const char* kMicroBatches =
    "3 ranks, 2 micro-batches: published gradients are the sums over the ranks";
constexpr const char* kWritten =
    "2 ranks: what is written into a published value is there when it is published again";
constexpr const char* kLayers = "2 ranks: layers compute with what was written into the published values";

const std::vector<Mistake> kMistakes = {
    {"never reduces", kGradients, "step 1"},
    {"averages", kGradients, "about 0.50"},
    {"averages one", kGradients, "about 0.50"},
    {"forgets one", kGradients, "step 1"},
    {"sums a part of one", kGradients, "step 1"},
    {"sums twice", kGradients, "about 2.00"},
    {"takes the maximum", kGradients, "step 1"},
    {"keeps gradients", "2 ranks: zero_gradients leaves no gradient", "step 1"},
    {"keeps one gradient", "2 ranks: zero_gradients leaves no gradient", "step 1"},
    {"keeps gradients on one rank", "2 ranks: zero_gradients leaves no gradient", "rank 1"},
    {"counts earlier sums again",
     "2 ranks, a loop of the caller's own: gradients of several backwards add up, and each counts once"},
    {"loses earlier micro-batches", kMicroBatches},
    {"loses the first micro-batch", kMicroBatches},
    {"counts the last micro-batch twice", kMicroBatches},
    {"reduces in every backward", kMicroBatches},
    {"publishes fresh copies", kWritten},
    {"publishes a fresh copy of one", kWritten},
    {"publishes fresh copies on one rank", kWritten, "rank 1"},
    {"publishes fresh copies from step 4 on",
     "2 ranks: published values are those of one rank after each update", "step 4"},
    {"publishes fixed copies", kLayers},
    {"publishes a fixed copy of one", kLayers},
    {"publishes copies of gradients",
     "2 ranks: what is written into a published gradient is there when it is published again"},
    {"publishes no gradient of one", kGradients, "no gradient"},
    {"publishes half", kEnds, "rank"},
    {"publishes half of one", kEnds},
    {"leaves one out", kEnds},
    {"publishes all twice", kEnds},
    {"publishes one twice", kEnds},
    {"publishes in another order", kEnds},
    {"does not refresh the layers",
     "2 ranks, bf16: layers compute with what was written into the published values"},
    {"refreshes the layers until step 3", "2 ranks, bf16: layers compute with the published values"},
    {"begins with other values", "2 ranks: values begin as on one rank"},
    {"drifts on one rank", kLayers, "rank 1"},
    {"adds noise on one rank", kGradients, "rank 1"},
    {"rounds one to single precision", kGradients},
    {"scales from step 4 on", kGradients, "step 4"},
    {"scales one from step 4 on", kGradients, "step 4"},
    {"stops reducing at step 4", kGradients, "step 4"},
    {"sums in another order on one rank", kEnds},
    {"leaves out a collective on one rank", kEnds},
    {"throws in configure", kEnds, "no memory"},
    {"throws in end_backward", kEnds, "no connection"},
    {"throws in end_backward everywhere", kEnds, "no connection"},
    {"throws in publish", kEnds, "nothing to publish"},
    {"throws in zero_gradients", kEnds, "nothing to zero"},
    {"exits in step 2", kEnds, "rank 1 ended with exit status 0"},
    {"crashes in step 2", kEnds, "rank 1 was killed by SIGSEGV"},
    {"loops in step 2", kEnds, "rank 1"},
};

TEST(StrategySuite, PassesARightOne) {
  const std::vector<Check> checks = checks_of("none");
  EXPECT_EQ(text_of(checks), "");
  EXPECT_GT(checks.size(), 40u);
}

TEST(StrategySuite, PassesOneOfTierStable) {
  const std::vector<Check> checks = checks_of("flat_sum", nlohmann::json::object());
  EXPECT_EQ(text_of(checks), "");
  EXPECT_GT(checks.size(), 40u);
}

TEST(StrategySuite, PassesThoseOfWeft) {
  using Strategy = std::pair<std::string, nlohmann::json>;
  const std::vector<Strategy> all = {
      {"torch_ddp", nlohmann::json::object()},      {"torch_fsdp", nlohmann::json::object()},
      {"low_level_zero", nlohmann::json::object()}, {"low_level_zero", {{"stage", 2}}},
      {"gemini", nlohmann::json::object()},         {"gemini", {{"enable_gradient_accumulation", true}}},
      {"hybrid_parallel", nlohmann::json::object()}};
  for (const auto& [name, options] : test::slice("shipped strategies", all, 2)) {
    const std::vector<Check> checks = checks_of(name, options);
    EXPECT_EQ(text_of(checks), "") << name << " " << options;
    EXPECT_GT(checks.size(), 40u);
  }
}

TEST(StrategySuite, NamesEachMistake) {
  std::vector<std::string> names;
  for (const Mistake& mistake : kMistakes) names.emplace_back(mistake.name);
  const std::vector<std::string> drawn = test::slice("wrong strategies", names, 12);
  for (const Mistake& mistake : kMistakes) {
    if (std::find(drawn.begin(), drawn.end(), mistake.name) == drawn.end()) continue;
    SCOPED_TRACE(mistake.name);
    const std::vector<Check> checks = checks_of(mistake.name);
    const bool is_named = std::any_of(checks.begin(), checks.end(), [&](const Check& check) {
      return !check.passed && check.name == mistake.check &&
             check.text.find(mistake.text) != std::string::npos;
    });
    EXPECT_TRUE(is_named) << "wanted: " << mistake.check << ", found:\n" << text_of(checks);
  }
}

}  // namespace
}  // namespace weft::contract

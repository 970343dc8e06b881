// weft::generate in a program: how tokens are drawn, rows that end, and failures on several ranks.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "api/job.hpp"
#include "generation/token_choice.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/generation.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

using Tokens = std::vector<int64_t>;

// Draws `rows` tokens from logits (vocabulary), each with a seed of its own.
Tokens drawn(const GenerationOptions& options, const at::Tensor& logits, int64_t rows) {
  const Tokens prompt = {0};
  std::vector<uint64_t> seeds;
  for (int64_t row = 0; row < rows; ++row) seeds.push_back(static_cast<uint64_t>(row));
  TokenChoice choice(options, logits.numel(), std::vector<const Tokens*>(seeds.size(), &prompt), seeds);
  return choice(logits.expand({rows, -1}));
}

void expect_shares(const Tokens& tokens, const std::vector<double>& wanted) {
  const auto count = static_cast<double>(tokens.size());
  for (size_t id = 0; id < wanted.size(); ++id) {
    const double found =
        static_cast<double>(std::count(tokens.begin(), tokens.end(), static_cast<int64_t>(id))) / count;
    EXPECT_NEAR(found, wanted[id], 5 * std::sqrt(wanted[id] * (1 - wanted[id]) / count)) << id;
  }
}

TEST(TokenChoice, DrawsWithTheProbabilitiesOfTheModel) {
  const at::Tensor logits = at::tensor({0.1, 0.2, 0.0, 0.3, 0.4}, at::kFloat).log();
  GenerationOptions options;
  expect_shares(drawn(options, logits, 4000), {0.1, 0.2, 0, 0.3, 0.4});
  options.top_k = 2;
  expect_shares(drawn(options, logits, 4000), {0, 0, 0, 3.0 / 7, 4.0 / 7});
  options.top_k = 0;
  options.top_p = 0.75;
  expect_shares(drawn(options, logits, 4000), {0, 2.0 / 9, 0, 3.0 / 9, 4.0 / 9});
  options.top_k = 3;
  options.top_p = 0.4;
  expect_shares(drawn(options, logits, 400), {0, 0, 0, 0, 1});
  options = {.temperature = 0.5};
  expect_shares(drawn(options, logits, 4000), {1.0 / 30, 4.0 / 30, 0, 9.0 / 30, 16.0 / 30});
}

// The tokens that reach top_p are few, some thousand, or nearly all.
TEST(TokenChoice, DrawsFromTheMostLikelyTokensOfALargeVocabulary) {
  constexpr int64_t kVocabulary = 5000;
  at::manual_seed(3);
  for (const double spread : {1.0, 0.1}) {
    const at::Tensor logits = at::randn({kVocabulary}) * spread;
    const auto [sorted, order] = logits.to(at::kDouble).softmax(0).sort(0, true);
    for (const double top_p : {0.05, 0.4, 0.9}) {
      const int64_t count = ((sorted.cumsum(0) - sorted).lt(top_p + 1e-5)).sum().item<int64_t>();
      std::set<int64_t> allowed;
      for (int64_t i = 0; i < count; ++i) allowed.insert(order[i].item<int64_t>());
      std::set<int64_t> found;
      for (const int64_t token : drawn({.top_p = top_p}, logits, 300)) {
        EXPECT_TRUE(allowed.contains(token)) << token << " with spread " << spread << " and top_p " << top_p;
        found.insert(token);
      }
      EXPECT_GT(found.size(), 1u);
    }
  }
}

TEST(TokenChoice, RefusesLogitsThatLeaveNothingToChoose) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {std::nanf(""), -kInfinity})
    for (const bool greedy : {true, false})
      EXPECT_ERROR(drawn({.greedy = greedy}, at::full({3}, value), 2), WEFT_DATA_LOSS, "no token",
                   "not finite");
  EXPECT_ERROR(drawn({.greedy = true, .suppressed = {0, 1, 2}}, at::zeros({3}), 1), WEFT_DATA_LOSS,
               "suppressed");
  const at::Tensor logits = at::tensor({1.0, 3.0, 3.0}, at::kFloat);
  EXPECT_EQ(drawn({.greedy = true}, logits, 2), (Tokens{1, 1}));
  EXPECT_EQ(drawn({.greedy = true, .suppressed = {1}}, logits.to(at::kBFloat16), 1), (Tokens{2}));
}

class GenerationInAProgram : public testing::Test {
 protected:
  Job job(const World& world) const {
    JobOptions options;
    options.model = model_;
    options.optimizer = options.schedule = "";
    return make_job(world, options);
  }
  TemporaryFolder folder_;
  const std::string model_ = folder_.file("config.json", config_json());
  const std::vector<Tokens> prompts_ = {{4, 9, 2}, {7}, {1, 2, 3, 4, 5, 6, 7, 8}, {30, 20}};
};

// The model takes 32 positions: the longer sequences are read anew for each token.
TEST_F(GenerationInAProgram, LeavesOtherRowsAsTheyAreWhenOneEnds) {
  on_ranks({1}, [&](World& world) {
    Job job = this->job(world);
    GenerationOptions options;
    options.max_new_tokens = 36;
    options.temperature = 3;
    options.repetition_penalty = 1.2;
    options.num_samples = 2;
    const Generation whole = generate(job, prompts_, options);
    ASSERT_EQ(whole.sequences.size(), 8u);
    std::vector<Tokens> told(8);
    const auto length_of = [](const GeneratedToken& token) {
      return static_cast<size_t>(3 + 9 * token.prompt + 2 * token.sample);
    };
    const Generation ended = generate(job, prompts_, options, [&](const GeneratedToken& token) {
      Tokens& row = told[static_cast<size_t>(2 * token.prompt + token.sample)];
      row.push_back(token.id);
      return row.size() < length_of(token);
    });
    for (size_t row = 0; row < 8; ++row) {
      const GeneratedSequence &all = whole.sequences[row], &some = ended.sequences[row];
      const size_t length = length_of({all.prompt, all.sample, 0});
      ASSERT_LT(length, all.ids.size());
      EXPECT_EQ(some.ids, Tokens(all.ids.begin(), all.ids.begin() + static_cast<std::ptrdiff_t>(length)));
      EXPECT_EQ(some.ids, told[row]);
      EXPECT_TRUE(some.stopped);
      EXPECT_FALSE(all.stopped);
    }
  });
}

TEST_F(GenerationInAProgram, FailsOnEveryRankWhereTheCallerFails) {
  on_ranks({2}, [&](World& world) {
    Job job = this->job(world);
    GenerationOptions options;
    options.max_new_tokens = 4;
    int told = 0;
    const OnToken fails = [&](const GeneratedToken&) -> bool {
      if (++told == 6) throw Error(WEFT_RESOURCE_EXHAUSTED, "the disk is full");
      return true;
    };
    EXPECT_ERROR(generate(job, prompts_, options, fails), WEFT_RESOURCE_EXHAUSTED,
                 world.is_master() ? "the disk is full" : "rank 0 failed: the disk is full");
    EXPECT_EQ(told, world.is_master() ? 6 : 0);
    EXPECT_EQ(generate(job, prompts_, options).new_tokens(), 16);  // nobody waits
    options.suppressed = Tokens(256);
    std::iota(options.suppressed.begin(), options.suppressed.end(), 0);
    EXPECT_ERROR(generate(job, prompts_, options), WEFT_DATA_LOSS, "no token");
  });
}

}  // namespace
}  // namespace weft::test

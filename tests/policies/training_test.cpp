// Trains every class of a family in every way (class_cases.hpp) against one rank.
#include <algorithm>

#include "base/text.hpp"
#include "policies/class_cases.hpp"
#include "policies/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

// Each launch of ranks has a time limit.
void expect_gradients_in_launches(const std::vector<Case>& cases, int ranks) {
  constexpr size_t kLaunch = 12;
  for (size_t begin = 0; begin < cases.size(); begin += kLaunch) {
    const size_t end = std::min(begin + kLaunch, cases.size());
    expect_gradients_of_one_rank({cases.begin() + begin, cases.begin() + end}, ranks);
  }
}

class Classes : public testing::TestWithParam<int> {};

// No tiny model has a number of positions that the ranks divide.
TEST_P(Classes, HaveTheGradientsOfOneRankUnlessTheirPlansAreRefused) {
  std::vector<Case> all;
  for (const ClassCase& item : class_cases())
    if (item.ranks == GetParam()) all.push_back(item.job);
  std::vector<Case> trained;
  std::vector<std::pair<Case, std::string>> refused;
  for (const Case& drawn : slice(fmt::format("Classes {} {}", kFamily, GetParam()), all, 8)) {
    const std::string reason = refusal(drawn);
    if (reason.empty())
      trained.push_back(drawn);
    else
      refused.emplace_back(drawn, reason);
  }
  expect_refusals(refused, GetParam());
  expect_gradients_in_launches(trained, GetParam());
}

INSTANTIATE_TEST_SUITE_P(OnRanks, Classes, testing::Values(2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param); });

}  // namespace

}  // namespace weft::test

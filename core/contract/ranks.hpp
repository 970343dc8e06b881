// Runs the ranks of one case as forks of this process, which has loaded the plugin already: that takes
// milliseconds, and a rank that crashes, hangs or calls exit() takes nothing else with it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contract/checks.hpp"
#include "contract/forks.hpp"
#include "failure.hpp"
#include "weft/world.hpp"

namespace weft::contract {

// What one rank found.
struct RankReport {
  Findings findings;
  std::optional<Failure> failure;  // what its body threw
  ForkEnd fork;
};

using RankBody = std::function<void(World& world, Findings& findings)>;

// Forks `count` ranks, runs `body` in each, and waits until all have ended. Throws FAILED_PRECONDITION if
// this process has several threads, which forks would not have.
std::vector<RankReport> run_ranks(int count, const RankBody& body, const Limits& limits = {});

// One case of a suite.
struct Case {
  std::string title;  // begins the names of its checks
  int ranks = 1;
  // Whether a plugin may refuse the case: on every rank alike, with a status that says so, and a reason.
  bool may_refuse = false;
};

enum class Outcome { kPassed, kRefused, kFailed };

// Runs the case and tells what its ranks found: each check once, failed if it failed on a rank, and whether
// all ranks ran to the end.
Outcome run_case(const Case& one, const RankBody& body, const Tell& tell, const Limits& limits = {});

// Whether any rank says true. Collective.
bool on_any_rank(const World& world, bool here);

}  // namespace weft::contract

// Forks of this process, which run one case together and report by a pipe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace weft::contract {

struct Limits {
  std::chrono::milliseconds time{20'000};       // for the whole case
  std::chrono::milliseconds grace{3'000};       // for the others, once one has failed
  std::chrono::milliseconds collective{8'000};  // for a peer in a collective
};

// How one fork ended.
struct ForkEnd {
  std::string report;  // what its body reported; empty if it ended before
  // Why there is no report: "was killed by SIGSEGV", "ended with exit status 0 before it was done", "still
  // ran after 20 s". Empty if there is one.
  std::string end;
  bool ended_by_us = false;  // because its time was up
  std::string output;        // the last of what it printed
};

// What a fork does: reports once, by calling `report`. A fork whose report `failed` is true for has failed.
// `port` is one of the loopback interface on which rank 0 waits for the others.
using ForkBody =
    std::function<void(int rank, int port, const std::function<void(const std::string& text)>& report)>;

// Forks `count` times, runs `body` in each fork, and waits until all have ended, or ends them when their time
// is up. `failed` says whether a report is one of a failure. Throws FAILED_PRECONDITION if this process has
// several threads, which forks would not have, and RESOURCE_EXHAUSTED.
std::vector<ForkEnd> run_forks(int count, const ForkBody& body,
                               const std::function<bool(const std::string& report)>& failed,
                               const Limits& limits);

}  // namespace weft::contract

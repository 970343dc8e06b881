// The launcher at work: one job of ranks on this host, from start to end. Private to launch/; see
// run_ranks.hpp.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/launch/failure_report.hpp"
#include "host/launch/rank_process.hpp"
#include "host/launch/run_ranks.hpp"

struct signalfd_siginfo;

namespace weft::launch {

inline constexpr int kMostRanksPerHost = 4096;

class Job {
 public:
  // `file` is executed with the command's arguments. `mark` is one more variable for the ranks, removed from
  // their environment if its value is empty. `listens`: the program takes the master's socket over, so that
  // it may listen from the start.
  Job(const RunOptions& options, std::string file, std::pair<std::string, std::string> mark, bool listens);
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<int> start();  // an exit code if a rank could not start
  std::vector<std::string> shared_environment() const;
  void wait_for_events();
  void read_signals();
  void on_signal(const signalfd_siginfo& signal);
  void check_ranks();
  void find_cause(const std::vector<int>& ended);
  bool as_asked(const RankEnd& end) const;
  void begin_ending();
  void kill_late_ranks();
  void signal_all(int number);
  int finish();
  void explain() const;
  void say(const std::string& text) const;
  bool has_reported(int rank) const;
  int num_running() const;

  const RunOptions options_;
  const std::string file_;
  const std::pair<std::string, std::string> mark_;
  const bool listens_;
  ReportChannel channel_;
  Descriptor signals_;
  std::vector<RankProcess> ranks_;
  std::vector<FailureReport> reports_;  // in the order in which they were sent

  int stop_signal_ = 0;  // the first of SIGINT, SIGTERM, SIGHUP, SIGQUIT that came
  Clock::time_point stop_time_;
  int cause_ = -1;              // the rank that failed first
  bool overruled_ = false;      // it was killed, although another had reported by then
  bool ended_others_ = false;   // and some ran on then
  bool ending_ = false;         // SIGTERM was sent
  bool killed_ = false;         // SIGKILL was sent
  bool gave_up_ = false;        // and even that did not end all
  Clock::time_point deadline_;  // of what comes next while ending
};

}  // namespace weft::launch

// The launcher at work: one job of ranks on this host, from start to end. Private to launch/; see
// run_ranks.hpp.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/launch/activity_board.hpp"
#include "host/launch/failure_report.hpp"
#include "host/launch/findings.hpp"
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

  // A job goes down this list, past some of them, and never up. All but the first have a deadline.
  enum class Phase {
    kRunning,
    kJudging,   // something went wrong: for half a second, what explains it is awaited
    kStopping,  // a signal asks the ranks to stop. First deadline: to take the signal; then: to stop
    kEnding,    // a rank failed, the others got SIGTERM
    kKilling,   // all got SIGKILL
    kGivenUp,   // and some did not end
  };
  void enter(Phase phase, Clock::duration patience);
  void on_deadline();

  std::optional<int> start();  // an exit code if a rank could not start
  std::vector<std::string> shared_environment() const;
  void wait_for_events();
  void read_signals();
  void on_signal(const signalfd_siginfo& signal);
  void look_at_ranks();
  void look_at_end(int rank);
  void take(const Report& report);
  void judge();

  bool as_asked(const RankEnd& end) const;
  void end_others(int cause);
  void kill_silent_ranks();
  void kill_all();
  void signal_all(int number);
  int finish();

  // In job_words.cpp.
  void explain() const;
  void say(const std::string& text) const;
  void say_signalled(const Report& report) const;
  void say_silent(int rank, const std::string& why) const;
  void say_late(int rank) const;
  std::string named(int rank) const;    // "rank 1 (pid 4242 on box)"
  std::string at_work(int rank) const;  // " in step 13", or ""
  std::string at_work_now() const;      // a line for each rank that runs but the cause

  int num_running() const;
  bool is_over() const;
  // The processes of a rank that have to take a signal: its program, or what its shell left behind.
  std::vector<pid_t> listeners(int rank) const;

  const RunOptions options_;
  const std::string file_;
  const std::pair<std::string, std::string> mark_;
  const bool listens_;
  const std::string host_;
  std::string job_mark_;
  ReportChannel channel_;
  ActivityBoard board_;
  Descriptor signals_;
  bool ignores_broken_pipes_ = false;  // this process did before the job
  std::vector<RankProcess> ranks_;
  std::vector<Report> reports_;  // of failures, in the order in which they were sent
  Findings findings_;

  Phase phase_ = Phase::kRunning;
  Clock::time_point deadline_;
  int stop_signal_ = 0;  // the first of SIGINT, SIGTERM, SIGHUP, SIGQUIT that came
  Clock::time_point stop_time_;
  bool answers_awaited_ = false;  // kStopping's first deadline
  std::set<int> silenced_;        // ranks that were killed because they did not
  int cause_ = -1;                // the rank that ended the job
  std::string suspects_;          // what the others did, where it only lost one of them
  bool told_ = false;             // and why has been said
  bool ended_others_ = false;     // and some ran on then
};

}  // namespace weft::launch

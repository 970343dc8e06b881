// Runs one job of ranks on this host, from start to end. Private to launch/; see run_ranks.hpp.
#pragma once

#include <algorithm>
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

class Job {
 public:
  // The ranks execute `file` with the arguments of the command. `listens` says that the program takes over
  // the master's socket, which therefore may listen from the start.
  Job(const RunOptions& options, std::string file, bool listens);
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  // A job passes through these phases in this order and may skip some. All but the first have a deadline.
  enum class Phase {
    kRunning,
    kJudging,   // a rank failed; the launcher waits half a second for evidence that explains it better
    kStopping,  // a signal asks the ranks to stop; the first deadline is for taking it, the second for ending
    kEnding,    // a rank failed, and the other ranks got SIGTERM
    kKilling,   // all ranks got SIGKILL
    kGivenUp,   // some ranks did not end even then
  };
  void enter(Phase phase, Clock::duration patience);
  void on_deadline();

  std::optional<int> start();  // returns an exit code if a rank could not start
  std::vector<std::string> shared_environment() const;
  void wait_for_events();
  void read_signals();
  void on_signal(const signalfd_siginfo& signal);
  void look_at_ranks();
  void look_at_end(int rank);
  void take(const Report& report);
  void judge();

  // How long ranks may take to take a stop signal.
  Clock::duration time_to_answer() const { return std::min(options_.answer, options_.grace); }
  bool as_asked(const RankEnd& end) const;
  int stop_code() const;
  // Returns true if the cause failed on its own, rather than because of a stop signal or of another rank.
  bool failed_by_itself() const { return cause_ >= 0 && findings_.of(cause_) > Evidence::kExit; }
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
  std::string named(int rank) const;    // returns "rank 1 (pid 4242 on box)"
  std::string at_work(int rank) const;  // returns " in step 13", or ""
  std::string at_work_now() const;      // returns a line for each running rank except the cause

  int num_running() const;
  bool is_over() const;
  // Returns the processes of a rank that have to take a signal: its program, or what its shell left behind.
  std::vector<pid_t> listeners(int rank) const;

  const RunOptions options_;
  const std::string file_;
  const bool listens_;
  const std::string host_;
  std::string job_mark_;
  ReportChannel channel_;
  ActivityBoard board_;
  Descriptor signals_;
  bool ignores_broken_pipes_ = false;  // whether this process ignored SIGPIPE before the job
  std::vector<RankProcess> ranks_;
  std::vector<Report> reports_;  // failures, in the order in which they were sent
  Findings findings_;

  Phase phase_ = Phase::kRunning;
  Clock::time_point deadline_;
  int stop_signal_ = 0;  // the first of SIGINT, SIGTERM, SIGHUP and SIGQUIT; SIGINT replaces the others
  std::set<int> stop_signals_;  // all that ranks got; a rank may end with any of them
  Clock::time_point stop_time_;
  bool answers_awaited_ = false;  // whether kStopping is before its first deadline
  std::set<int> silenced_;        // ranks that were killed because they did not take the signal
  int cause_ = -1;                // the rank that ended the job
  std::string suspects_;          // what the other ranks did when the cause lost one of them
  bool told_ = false;             // whether the reason has been printed
  bool explained_ = false;        // whether a rank has said why the job ends with exit code 1
  bool ended_others_ = false;     // whether other ranks were still running then
};

}  // namespace weft::launch

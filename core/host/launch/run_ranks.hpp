// Starts a program as the ranks of a job on this host, as torchrun does, and ends them together.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace weft::launch {

inline constexpr int kMostRanksPerHost = 4096;

struct RunOptions {
  int num_ranks = 1;
  std::vector<std::string> command;  // the program, searched on PATH if it has no slash, and its arguments
  std::string verb = "run";          // for messages: `weft: run: ...`
  std::string master_addr = "127.0.0.1";
  int master_port = 0;                        // 0: a free one
  std::vector<std::string> environment = {};  // more variables of the ranks: "NAME=VALUE"; "NAME=" unsets it
  // Time from a stop signal until each rank must have received it, and until each rank must have ended.
  std::chrono::milliseconds answer{10'000}, grace{300'000};
};

// Runs the ranks until all have ended. They get RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT, and OMP_NUM_THREADS = cores / ranks (at least 1) if that is unset; WEFT_REPORT_FD
// (failure_report.hpp), WEFT_ACTIVITY_FD (activity.hpp), WEFT_JOB (job_processes.hpp) and, rank 0,
// WEFT_MASTER_LISTEN_FD (master_port.hpp).
//
// Output: stdout is this process's. So is rank 0's stderr where that is a terminal, so that it can draw a
//   progress bar; every other stderr passes through a pipe, forwarded at once and its last 20 lines kept for
//   the report. Rank 0 reads this process's stdin unless it is a terminal; other ranks read /dev/null. If
//   nobody reads this process's output any more, the ranks go on.
// Failure: the first rank that fails ends the job: the others get SIGTERM, 3 s later SIGKILL. It alone is
//   explained on stderr, with what it was doing, its report and last lines: what the others say then follows
//   from it. A rank that only tells of a lost peer is blamed if no other one has ended within half a second.
// Stopping: SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process are passed on to all ranks, except those that
//   this process ignores (nohup). A rank that has not taken the signal after `answer`, or after a shorter
//   `grace`, because it is stopped or ignores the signal, is killed and named; the others may finish up to
//   `grace`. A second SIGINT kills at once. If one rank alone is signalled and reports it
//   (report_stop_signal()), the job stops as if this process had been signalled. After a failure these
//   signals change nothing.
// Other signals: each rank has a process group of its own, so Ctrl-C reaches this process only. SIGUSR1,
//   SIGUSR2, SIGWINCH, SIGTSTP and SIGCONT are passed on. If this process is killed, so are the ranks and all
//   that they started; what they started is ended after a failure and after a signal too.
//
// Returns 0; the exit code of the first failure, 128 + signal if it was killed, 1 if it reported a failure
// and did not end within the 3 s; 128 + signal after SIGINT (130), SIGTERM, SIGHUP or SIGQUIT, unless a rank
// then fails on its own, such as in its last save; after several of these signals, that of the first rank
// that ended with one of them; 127 if there is no such program, 126 if it cannot be executed. Failures are
// explained on stderr. Throws INVALID_ARGUMENT if an option is wrong; FAILED_PRECONDITION if this process is
// a rank already; UNAVAILABLE if the port is taken; RESOURCE_EXHAUSTED. Call it from the main thread, before
// there are others. Blocks.
int run_ranks(const RunOptions& options);

// For a verb with -n: whether to call run_self(). False without -n, for one rank, and in a rank that
// run_self() started. Throws INVALID_ARGUMENT if `num_ranks` is below 1; FAILED_PRECONDITION if it is given
// though this process is a rank of another launcher.
bool must_launch(std::optional<int> num_ranks);

// True in a rank that run_self() started.
bool is_launched_by_itself();

// As run_ranks(), with this very program and its arguments in place of `options.command`; must_launch() is
// false there.
int run_self(RunOptions options);

}  // namespace weft::launch

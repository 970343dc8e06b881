#include "support/launch_ranks.hpp"

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <gtest/gtest-spi.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "support/sanitized.hpp"

namespace weft::test {
namespace {

using Clock = std::chrono::steady_clock;

// libtorch's thread pool would not survive fork, and ranks share the cores anyway.
const bool kOneThread = (at::set_num_threads(1), true);

[[noreturn]] void fail_with_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// ThreadSanitizer starts a thread of its own with the first thread of a process.
constexpr int kRuntimeThreads = kThreadSanitized ? 1 : 0;

struct RankProcess {
  pid_t pid = -1;
  int output = -1;  // read end of its pipe, -1 after it has ended
  int place = 0;    // 1 for the rank that ended first, and so on
  RankOutcome outcome;
};

// A listening socket on a free port of the loopback interface. The store on rank 0 takes it over.
struct MasterSocket {
  int descriptor = -1;
  int port = 0;

  MasterSocket() {
    descriptor = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (descriptor < 0 || bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(descriptor, 128) != 0 ||
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      fail_with_errno("run_ranks: no listening socket");
    }
    port = ntohs(address.sin_port);
  }
  ~MasterSocket() { close(descriptor); }
};

void set_environment(int rank, int count, const MasterSocket& master) {
  auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
  set("RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(count));
  set("LOCAL_RANK", std::to_string(rank));
  set("LOCAL_WORLD_SIZE", std::to_string(count));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(master.port));
  set("OMP_NUM_THREADS", "1");
  if (rank == 0) {
    set("WEFT_MASTER_LISTEN_FD", std::to_string(master.descriptor));
  } else {
    close(master.descriptor);
  }
}

// Prints failed assertions of a rank at once, so that they are not lost if the rank dies later.
class Assertions : public testing::ScopedFakeTestPartResultReporter {
 public:
  explicit Assertions(InterceptMode mode) : ScopedFakeTestPartResultReporter(mode, &unused_) {}

  void ReportTestPartResult(const testing::TestPartResult& result) override {
    if (result.passed()) return;
    if (result.failed()) any_failed = true;
    std::printf("%s:%d: %s\n%s\n", result.file_name() ? result.file_name() : "", result.line_number(),
                result.failed() ? "Failure" : "Skipped", result.message());
    std::fflush(stdout);
  }
  static std::atomic<bool> any_failed;

 private:
  testing::TestPartResultArray unused_;
};
std::atomic<bool> Assertions::any_failed = false;

[[noreturn]] void be_a_rank(int rank, const std::function<void(int)>& body) {
  // Replace this thread's reporter too, which EXPECT_NONFATAL_FAILURE may have set.
  const Assertions on_any_thread(Assertions::INTERCEPT_ALL_THREADS);
  const Assertions on_this_thread(Assertions::INTERCEPT_ONLY_CURRENT_THREAD);
  bool passed = false;
  try {
    body(rank);
    passed = !Assertions::any_failed;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    std::printf("exception: %s\n",
                text.substr(0, text.find("Exception raised from")).c_str());  // without c10's stack trace
  } catch (...) {
    std::printf("exception that is no std::exception\n");
  }
  std::fflush(nullptr);
  _exit(passed ? 0 : 1);
}

RankProcess fork_rank(int rank, int count, const MasterSocket& master, const std::function<void(int)>& body) {
  int ends[2];
  if (pipe(ends) != 0) fail_with_errno("run_ranks: pipe");
  std::fflush(nullptr);
  const pid_t parent = getpid();
  RankProcess process;
  process.pid = fork();
  if (process.pid < 0) fail_with_errno("run_ranks: fork");
  if (process.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    set_environment(rank, count, master);
    be_a_rank(rank, body);
  }
  close(ends[1]);
  process.output = ends[0];
  return process;
}

void reap(RankProcess& process, int place) {
  int status = 0;
  waitpid(process.pid, &status, 0);
  close(process.output);
  process.output = -1;
  process.place = place;
  RankOutcome& outcome = process.outcome;
  outcome.passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!outcome.how.empty()) return;  // killed by supervise(), which set the reason
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    outcome.how = "killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  } else {
    outcome.how =
        outcome.passed ? "passed" : "failed with exit status " + std::to_string(WEXITSTATUS(status));
  }
}

// Reads available output. Returns false after the rank has closed its end of the pipe.
bool read_output(RankProcess& process) {
  char buffer[4096];
  const ssize_t size = read(process.output, buffer, sizeof(buffer));
  if (size > 0) process.outcome.output.append(buffer, static_cast<size_t>(size));
  return size > 0 || (size < 0 && errno == EINTR);
}

std::string seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", static_cast<double>(time.count()) / 1000);
  return text;
}

// Waits until every rank has ended. Kills ranks that still run after the timeout or, if a rank has failed,
// after the grace.
void supervise(std::vector<RankProcess>& processes, const RankOptions& options) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point deadline = begin + options.timeout;
  std::string overdue = "still running after " + seconds(options.timeout) + ", ended";
  int places = 0;
  bool failed = false;
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<RankProcess*> owners;
    for (RankProcess& process : processes) {
      if (process.output < 0) continue;
      waiting.push_back({process.output, POLLIN, 0});
      owners.push_back(&process);
    }
    if (waiting.empty()) return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      for (RankProcess* process : owners) {
        kill(process->pid, SIGKILL);
        if (process->outcome.how.empty()) process->outcome.how = overdue;
      }
    }
    poll(waiting.data(), waiting.size(), left <= 0 ? 1000 : static_cast<int>(left));
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0 || read_output(*owners[i])) continue;
      reap(*owners[i], ++places);
      if (owners[i]->outcome.passed || failed) continue;
      failed = true;
      if (Clock::now() + options.grace < deadline) {
        deadline = Clock::now() + options.grace;
        overdue = "still running " + seconds(options.grace) + " after another rank failed, ended";
      }
    }
  }
}

std::string indented(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += "    " + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return out;
}

std::vector<RankProcess> fork_and_wait(int count, const std::function<void(int)>& body,
                                       const RankOptions& options) {
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads > 1 + kRuntimeThreads) {
    throw std::runtime_error(
        "run_ranks: this process has " + std::to_string(threads) +
        " threads, which its ranks would not have: do what started them inside the ranks");
  }
  std::vector<RankProcess> processes;
  {
    const MasterSocket master;
    for (int rank = 0; rank < count; ++rank) processes.push_back(fork_rank(rank, count, master, body));
  }
  supervise(processes, options);
  return processes;
}

}  // namespace

std::vector<RankOutcome> run_ranks(int count, const std::function<void(int)>& body,
                                   const RankOptions& options) {
  std::vector<RankOutcome> outcomes;
  for (RankProcess& process : fork_and_wait(count, body, options))
    outcomes.push_back(std::move(process.outcome));
  return outcomes;
}

void on_ranks(const std::vector<int>& counts, const std::function<void(World&)>& body,
              const RankOptions& options) {
  for (const int count : counts) {
    const auto join_and_run = [&](int) {
      World world = launch(options.collective_timeout);
      body(world);
    };
    std::vector<RankProcess> processes = fork_and_wait(count, join_and_run, options);
    if (std::getenv("WEFT_SHOW_RANKS") != nullptr) {
      for (int rank = 0; rank < count; ++rank) {
        std::printf("rank %d of %d:\n%s", rank, count, indented(processes[rank].outcome.output).c_str());
      }
    }
    std::vector<int> order(count);
    for (int rank = 0; rank < count; ++rank) order[rank] = rank;
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return processes[a].place < processes[b].place; });
    std::string report;
    for (const int rank : order) {
      const RankOutcome& outcome = processes[rank].outcome;
      if (outcome.passed) continue;
      report += "rank " + std::to_string(rank) + " of " + std::to_string(count) + ": " + outcome.how + "\n" +
                indented(outcome.output);
    }
    if (!report.empty()) {
      ADD_FAILURE() << report;
      return;
    }
  }
}

}  // namespace weft::test

#include "contract/forks.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "host/launch/master_port.hpp"

namespace weft::contract {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKeptOutput = 600;  // bytes of what a rank printed

struct Process {
  pid_t id = -1;
  Descriptor report, output;  // read ends
  ForkEnd result;
  bool running() const { return id > 0; }
};

std::array<Descriptor, 2> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail(WEFT_RESOURCE_EXHAUSTED, "cannot make a pipe for a rank: {}", std::strerror(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

[[noreturn]] void be_a_fork(int rank, const launch::MasterPort& master, int report, int output,
                            const ForkBody& body) {
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (rank == 0)
    set_environment_default(launch::kMasterListenVariable, std::to_string(master.socket.get()).c_str());
  else
    close(master.socket.get());
  try {
    body(rank, master.port, [report](const std::string& text) { write_all(report, text); });
  } catch (const std::exception& exception) {  // after its report, or without one
    std::fprintf(stderr, "%s\n", exception.what());
  }
  std::fflush(nullptr);
  _exit(0);
}

Process start_fork(int rank, const launch::MasterPort& master, const ForkBody& body) {
  std::array<Descriptor, 2> report = make_pipe(), output = make_pipe();
  std::fflush(nullptr);
  const pid_t parent = getpid();
  Process process;
  process.id = fork();
  if (process.id < 0) fail(WEFT_RESOURCE_EXHAUSTED, "cannot start a rank: {}", std::strerror(errno));
  if (process.id == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    be_a_fork(rank, master, report[1].get(), output[1].get(), body);
  }
  process.report = std::move(report[0]);
  process.output = std::move(output[0]);
  return process;
}

// Reads what is there. Closes `end` once the other side has.
void read_from(Descriptor& end, std::string& text, size_t kept) {
  char buffer[4096];
  const ssize_t size = read(end.get(), buffer, sizeof(buffer));
  if (size < 0 && errno == EINTR) return;
  if (size <= 0) return end.reset();
  text.append(buffer, static_cast<size_t>(size));
  if (text.size() > kept) text.erase(0, text.size() - kept);
}

void reap(Process& process) {
  int status = 0;
  while (waitpid(process.id, &status, 0) < 0 && errno == EINTR) {
  }
  process.id = -1;
  ForkEnd& result = process.result;
  if (!result.report.empty()) {  // whatever became of it then
    result.end.clear();
    result.ended_by_us = false;
  } else if (result.end.empty()) {
    result.end = WIFSIGNALED(status)
                     ? fmt::format("was killed by {}", signal_name(WTERMSIG(status)))
                     : fmt::format("ended with exit status {} before it was done", WEXITSTATUS(status));
  }
}

void kill_late(std::vector<Process>& processes, const std::string& why) {
  for (Process& process : processes) {
    if (!process.running()) continue;
    kill(process.id, SIGKILL);
    if (process.result.end.empty()) process.result.end = why;
    process.result.ended_by_us = true;
  }
}

void supervise(std::vector<Process>& processes, const std::function<bool(const std::string&)>& has_failed,
               const Limits& limits) {
  Clock::time_point deadline = Clock::now() + limits.time;
  std::string late = fmt::format("still ran after {} s", limits.time.count() / 1000);
  bool failed = false;
  for (;;) {
    std::vector<pollfd> waiting;
    for (const Process& process : processes)
      for (const Descriptor* end : {&process.report, &process.output})
        if (*end) waiting.push_back({end->get(), POLLIN, 0});
    if (waiting.empty()) return;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      kill_late(processes, late);
      deadline = Clock::now() + limits.time;
      continue;
    }
    poll(waiting.data(), waiting.size(), static_cast<int>(left));
    for (const pollfd& end : waiting) {
      if (end.revents == 0) continue;
      for (Process& process : processes) {
        if (process.report.get() == end.fd)
          read_from(process.report, process.result.report, SIZE_MAX);
        else if (process.output.get() == end.fd)
          read_from(process.output, process.result.output, kKeptOutput);
      }
    }
    for (Process& process : processes) {
      if (!process.running() || process.report || process.output) continue;
      reap(process);
      if (failed || (process.result.end.empty() && !has_failed(process.result.report))) continue;
      failed = true;
      deadline = std::min(deadline, Clock::now() + limits.grace);
      late = fmt::format("still ran {} s after another rank had failed", limits.grace.count() / 1000);
    }
  }
}

}  // namespace

std::vector<ForkEnd> run_forks(int count, const ForkBody& body,
                               const std::function<bool(const std::string& report)>& failed,
                               const Limits& limits) {
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads > 1)
    fail(WEFT_FAILED_PRECONDITION,
         "this process has {} threads, which the ranks of a case would not have: the plugin started one when "
         "it was loaded or called; start threads in configure, where a training begins",
         threads);
  std::vector<Process> processes;
  processes.reserve(count);
  {
    const launch::MasterPort master = launch::reserve_master_port("127.0.0.1", 0, true);
    for (int rank = 0; rank < count; ++rank) processes.push_back(start_fork(rank, master, body));
  }
  supervise(processes, failed, limits);
  std::vector<ForkEnd> ends;
  ends.reserve(processes.size());
  for (Process& process : processes) ends.push_back(std::move(process.result));
  return ends;
}

}  // namespace weft::contract

// The program under test: the launcher (`run N COMMAND`, `self N STEPS`), or a rank that takes steps.
//
// `rank 0:STEP,STEP 1:STEP` gives each rank its own steps; `STEP,...` without a number is for all.
//   say=TEXT out=TEXT   a line on stderr, stdout     lines=N      N lines on stderr
//   report=TEXT         report_failure()             lost=TEXT    report_failure() of a lost peer
//   explained           report_explained()
//   doing=TEXT          note_activity()              exit=N       ends with this code
//   kill=N              kills itself                 ignore=N     ignores a signal
//   on=N:CODE           exits with CODE on signal N  tell=N       writes a byte to the test on signal N
//   slow=N              half a second after signal N writes "finished" on stdout and exits with 0
//   agrees=N            on signal N tells the launcher and rank 0, and exits with 128 + N
//   tells=N             does the same, and exits with 0
//   fails=N             on signal N reports "disk is full" and exits with 4
//   once=N              writes a byte to the test on signal N; a second one writes "twice" on stdout
//   ready               writes a byte to the test    wait         until killed
//   stop                stops itself, with SIGTERM blocked
//   give=R take         a byte to rank R, from any   input        prints stdin
//   rewind              goes back to the beginning of stdout
//   dies=N              kills itself on signal N, after a byte to rank 0
//   shrink              reads a mapped file that has become shorter
//   facts               prints what read_rank_environment() and the launcher's variables say
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <weft/error.hpp>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "host/launch/activity.hpp"
#include "host/launch/failure_report.hpp"
#include "host/launch/master_port.hpp"
#include "host/launch/rank_environment.hpp"
#include "host/launch/rank_signals.hpp"
#include "host/launch/run_ranks.hpp"

namespace {

using namespace weft;
using namespace weft::launch;

int ready_fd = -1;
int code_of_signal[NSIG] = {};

void write_byte(int fd) {
  if (write(fd, "!", 1) != 1) _exit(99);
}

void print(int fd, const std::string& line) {
  if (write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(99);
}

// Pipes of the ranks 0 and 1, made by the test.
int test_fd(const char* name, int rank) {
  return static_cast<int>(environment_integer(fmt::format("{}_{}", name, rank).c_str()).value());
}
void give(int rank) {
  write_byte(test_fd("TEST_GIVE_FD", rank));
}

void exit_on(int number) {
  _exit(code_of_signal[number]);
}
void tell_on(int) {
  write_byte(ready_fd);
}

void die_on(int) {
  give(0);
  raise(SIGKILL);
}

void finish_slowly(int) {
  usleep(500'000);
  print(STDOUT_FILENO, "finished\n");
  _exit(0);
}

void tell_launcher_on(int number, siginfo_t* info, void*) {
  report_stop_signal(number, info->si_pid);
  give(0);
  _exit(code_of_signal[number]);
}

void fail_on(int) {
  const RankEnvironment ranks = read_rank_environment();
  report_failure(ranks.rank, WEFT_INTERNAL, "disk is full");
  _exit(4);
}

void tell_twice(int) {
  print(STDOUT_FILENO, "twice\n");
}
void tell_once(int number) {
  signal(number, tell_twice);
  write_byte(ready_fd);
}

void stop_itself() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  write_byte(ready_fd);
  raise(SIGSTOP);
}

// Of a file that was mapped whole.
int read_after_it_shrank() {
  const int fd = memfd_create("shrunk", 0);
  if (ftruncate(fd, 8192) != 0) _exit(97);
  const auto* data = static_cast<const volatile char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
  if (data[5000] != 0 || ftruncate(fd, 0) != 0) _exit(97);
  return data[5000];
}

void print_facts(const RankEnvironment& ranks) {
  const std::optional<int> listen_fd = master_listen_fd(ranks);
  print(
      STDOUT_FILENO,
      fmt::format("rank {} of {} local {} of {} at {}:{} by {}; report {} listen {} threads {} terminal {}\n",
                  ranks.rank, ranks.world_size, ranks.local_rank, ranks.local_world_size, ranks.master_addr,
                  ranks.master_port, ranks.source, has_report_channel(), listen_fd.has_value(),
                  environment("OMP_NUM_THREADS").value_or("unset"), isatty(STDERR_FILENO) == 1));
}

void print_input() {
  char text[256];
  const ssize_t size = read(STDIN_FILENO, text, sizeof(text));
  print(STDOUT_FILENO, fmt::format("input {}\n", std::string_view(text, size > 0 ? size : 0)));
}

void take(const RankEnvironment& ranks, const std::string& step) {
  const size_t equals = step.find('=');
  const std::string name = step.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : step.substr(equals + 1);
  const int number = std::atoi(value.c_str());
  char byte;
  if (name == "say") print(STDERR_FILENO, value + "\n");
  if (name == "out") print(STDOUT_FILENO, value + "\n");
  if (name == "lines") {
    for (int i = 1; i <= number; ++i) print(STDERR_FILENO, fmt::format("line {}\n", i));
  }
  if (name == "report") report_failure(ranks.rank, WEFT_INTERNAL, value);
  if (name == "lost") report_failure(ranks.rank, WEFT_UNAVAILABLE, value);
  if (name == "explained") launch::report_explained(ranks.rank);
  if (name == "doing") note_activity(value);
  if (name == "step") {
    const Activity activity(value);
    _exit(0);
  }
  if (name == "exit") _exit(number);
  if (name == "kill") raise(number);
  if (name == "ignore") signal(number, SIG_IGN);
  if (name == "on") {
    code_of_signal[number] = std::atoi(value.substr(value.find(':') + 1).c_str());
    signal(number, exit_on);
  }
  if (name == "tell") signal(number, tell_on);
  if (name == "slow") signal(number, finish_slowly);
  if (name == "fails") signal(number, fail_on);
  if (name == "once") signal(number, tell_once);
  if (name == "agrees" || name == "tells") {
    code_of_signal[number] = name == "agrees" ? 128 + number : 0;
    struct sigaction action = {};
    action.sa_sigaction = tell_launcher_on;
    action.sa_flags = SA_SIGINFO;
    sigaction(number, &action, nullptr);
  }
  if (name == "stop") stop_itself();
  if (name == "shrink") _exit(read_after_it_shrank());
  if (name == "ready") write_byte(ready_fd);
  if (name == "wait") {
    for (;;) pause();
  }
  if (name == "give") give(number);
  if (name == "take" && read(test_fd("TEST_TAKE_FD", ranks.rank), &byte, 1) != 1) _exit(98);
  if (name == "rewind") lseek(STDOUT_FILENO, 0, SEEK_SET);
  if (name == "dies") signal(number, die_on);
  if (name == "input") print_input();
  if (name == "facts") print_facts(ranks);
}

int be_rank(const std::vector<std::string>& arguments) {
  const RankEnvironment ranks = read_rank_environment();
  ready_fd = static_cast<int>(environment_integer("TEST_READY_FD").value_or(-1));
  prefer_errors_to_signals(ranks.rank, ranks.world_size);
  const std::string own = fmt::format("{}:", ranks.rank);
  for (const std::string& argument : arguments) {
    const bool numbered = argument.size() > 1 && argument[0] >= '0' && argument[0] <= '9';
    if (numbered && !argument.starts_with(own)) continue;
    for (const std::string& step : split(numbered ? argument.substr(own.size()) : argument, ','))
      take(ranks, step);
  }
  return 0;
}

int run(std::vector<std::string> arguments) {
  const std::string mode = arguments.at(0);
  if (mode == "rank") return be_rank({arguments.begin() + 1, arguments.end()});
  RunOptions options;
  options.num_ranks = std::atoi(arguments.at(1).c_str());
  options.verb = mode;
  if (const auto time = environment_integer("TEST_ANSWER_MS"))
    options.answer = std::chrono::milliseconds(*time);
  if (const auto time = environment_integer("TEST_GRACE_MS"))
    options.grace = std::chrono::milliseconds(*time);
  if (mode == "self") {
    if (must_launch(options.num_ranks)) return run_self(options);
    return be_rank({arguments.begin() + 2, arguments.end()});
  }
  if (const auto port = environment_integer("TEST_MASTER_PORT"))
    options.master_port = static_cast<int>(*port);
  if (const auto address = environment("TEST_MASTER_ADDR")) options.master_addr = *address;
  options.command.assign(arguments.begin() + 2, arguments.end());
  return run_ranks(options);
}

}  // namespace

int main(int argc, char** argv) try {
  return run({argv + 1, argv + argc});
} catch (const weft::Error& error) {
  std::fprintf(stderr, "error %d: %s\n", error.status(), error.what());
  return 50;
}

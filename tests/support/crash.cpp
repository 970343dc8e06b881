#include "support/crash.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace weft::test {

namespace {

constexpr int kUnavailable = 77;

pid_t start_traced(const std::function<void()>& prepare, const std::function<void()>& body) {
  const pid_t process = fork();
  if (process != 0) return process;
  prepare();
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kUnavailable);
  raise(SIGSTOP);
  body();
  _exit(0);
}

// Lets the child come to its next stop: a system call begins or ends. False when it has ended.
bool next_stop(pid_t process) {
  int status = 0;
  ptrace(PTRACE_SYSCALL, process, nullptr, nullptr);
  waitpid(process, &status, 0);
  return WIFSTOPPED(status);
}

bool is_stopped(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFSTOPPED(status);
}

}  // namespace

std::optional<size_t> count_system_calls(const std::function<void()>& prepare,
                                         const std::function<void()>& body) {
  const pid_t process = start_traced(prepare, body);
  if (!is_stopped(process)) return std::nullopt;
  size_t stops = 0;
  while (next_stop(process)) ++stops;
  return (stops + 1) / 2;  // the call that ends the child does not come out
}

bool kill_at_system_call(size_t number, const std::function<void()>& prepare,
                         const std::function<void()>& body) {
  const pid_t process = start_traced(prepare, body);
  if (!is_stopped(process)) return false;
  for (size_t stop = 0; stop < 2 * number + 1; ++stop)
    if (!next_stop(process)) return false;
  ::kill(process, SIGKILL);
  int status = 0;
  waitpid(process, &status, 0);
  return true;
}

std::optional<bool> passes_on_small_disk(const std::string& folder, size_t size_bytes,
                                         const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    const std::string size = "size=" + std::to_string(size_bytes);
    const bool mounted = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted) _exit(kUnavailable);
    int status = 1;
    try {
      body();
      status = testing::Test::HasFailure() ? 1 : 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  waitpid(process, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUnavailable) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace weft::test

#include "contract/kills.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"

namespace weft::contract {

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

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Lets the child come to its next stop: a system call begins or ends. False when it has ended.
bool next_stop(pid_t process) {
  ptrace(PTRACE_SYSCALL, process, nullptr, nullptr);
  return WIFSTOPPED(wait_for(process));
}

bool is_stopped(pid_t process) {
  return process > 0 && WIFSTOPPED(wait_for(process));
}

std::string read_all(const Descriptor& end) {
  std::string text;
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = read(end.get(), bytes.data(), bytes.size());
    if (count > 0) text.append(bytes.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
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
  wait_for(process);
  return true;
}

std::string in_fork(const std::function<std::string()>& body) {
  constexpr unsigned kSeconds = 10;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(WEFT_RESOURCE_EXHAUSTED, "pipe: {}", std::strerror(errno));
  Descriptor read_end(ends[0]), write_end(ends[1]);
  const pid_t process = fork();
  if (process < 0) fail(WEFT_RESOURCE_EXHAUSTED, "fork: {}", std::strerror(errno));
  if (process == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(kSeconds);
    std::string text;
    try {
      text = body();
    } catch (const std::exception& exception) {
      text = exception.what();
    } catch (...) {
      text = "threw what is no std::exception";
    }
    _exit(write_all(write_end.get(), text));
  }
  write_end.reset();
  const std::string text = read_all(read_end);
  const int status = wait_for(process);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return fmt::format("still ran after {} s", kSeconds);
  if (WIFSIGNALED(status)) return "was killed by " + signal_name(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("ended with exit status {}", WEXITSTATUS(status));
  return text;
}

}  // namespace weft::contract

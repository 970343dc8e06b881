#include "host/launch/rank_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/files.hpp"
#include "base/text.hpp"
#include "host/launch/rank_signals.hpp"

namespace weft::launch {
namespace {

constexpr size_t kTailBytes = 16 * 1024;
constexpr size_t kLastLines = 20;

struct Pipe {
  Descriptor read, write;
};

Pipe make_pipe(int flags) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC | flags) != 0) throw std::system_error(errno, std::generic_category());
  return {Descriptor(fds[0]), Descriptor(fds[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Between fork and exec: only calls that are safe there. Returns errno of what failed.
int become_rank(const RankStart& start, char* const* arguments, char* const* environment, pid_t launcher,
                int errors) {
  setpgid(0, 0);
  // Should the launcher be killed, no rank may stay behind; and it may be gone already.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (getppid() != launcher) return ESRCH;
  if (!start.own_input) {
    const int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0) return errno;
    if (null != STDIN_FILENO) close(null);
  }
  if (errors >= 0 && dup2(errors, STDERR_FILENO) < 0) return errno;
  for (const int fd : start.inherited) {
    if (fcntl(fd, F_SETFD, 0) != 0) return errno;
  }
  // Not in the terminal's foreground group: under `stty tostop` a line of output would stop the rank.
  signal(SIGTTOU, SIG_IGN);
  signal(SIGPIPE, start.ignores_broken_pipes ? SIG_IGN : SIG_DFL);  // the launcher's own is ignored
  restore_file_size_signal();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(start.file, arguments, environment);
  return errno;
}

}  // namespace

RankProcess::RankProcess(const RankStart& start) {
  const std::vector<char*> arguments = pointers(start.arguments);
  const std::vector<char*> environment = pointers(start.environment);
  Pipe errors;
  if (start.keep_errors) errors = make_pipe(0);
  Pipe problem = make_pipe(0);  // closed by a successful exec
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category());
  if (pid_ == 0) {
    const int reason = become_rank(start, arguments.data(), environment.data(), launcher, errors.write.get());
    const ssize_t written = write(problem.write.get(), &reason, sizeof(reason));
    _exit(written == sizeof(reason) ? 127 : 126);
  }
  setpgid(pid_, pid_);  // here too: whoever comes first
  problem.write.reset();
  int reason = 0;
  ssize_t size = -1;
  do {
    size = read(problem.read.get(), &reason, sizeof(reason));
  } while (size < 0 && errno == EINTR);
  if (size == sizeof(reason)) {
    waitpid(pid_, nullptr, 0);
    throw std::system_error(reason, std::generic_category());
  }
  errors_ = std::move(errors.read);
  if (errors_) fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
}

void RankProcess::signal(int number) const {
  kill(-pid_, number);
}

const std::optional<RankEnd>& RankProcess::check() {
  if (end_) return end_;
  siginfo_t info = {};
  // WNOWAIT: a zombie keeps the number of the group from being given to others.
  if (waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_) return end_;
  end_ = info.si_code == CLD_EXITED ? RankEnd{info.si_status, 0} : RankEnd{0, info.si_status};
  return end_;
}

void RankProcess::reap(bool end_group) {
  if (pid_ <= 0) return;
  if (end_group) signal(SIGKILL);
  waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
}

void RankProcess::forward_errors() {
  std::array<char, 8192> buffer;
  // More than a pipe holds, and an end: a rank that never stops writing must not keep us here.
  for (int i = 0; i < 16 && errors_; ++i) {
    const ssize_t size = read(errors_.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
      errors_.reset();
      return;
    }
    const std::string_view text(buffer.data(), static_cast<size_t>(size));
    write_error(text);
    keep(text);
  }
}

void RankProcess::keep(std::string_view text) {
  tail_ += text;
  if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

std::vector<std::string> RankProcess::last_lines() const {
  std::string text = tail_;
  std::replace(text.begin(), text.end(), '\r', '\n');  // a progress bar rewrites its line
  std::vector<std::string> lines = split(text, '\n');
  if (lines.size() > kLastLines) lines.erase(lines.begin(), lines.end() - kLastLines);
  return lines;
}

void write_error(std::string_view text) {
  write_all(STDERR_FILENO, text);  // if nobody reads it, the job goes on all the same
}

}  // namespace weft::launch

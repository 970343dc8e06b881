#include "host/launch/keeper.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "host/launch/job_processes.hpp"

namespace weft::launch {
namespace {

// Out of reach of the terminal and of signals to the launcher's group, and nobody's pipe stays open because
// of it.
[[noreturn]] void keep(int line, const std::string& mark) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "weft-keeper");
  const int kept = fcntl(line, F_DUPFD, 16);
  const int null = open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, standard);
  close_range(STDERR_FILENO + 1, static_cast<unsigned>(kept) - 1, 0);
  close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
  if (kept < 0 || chdir("/") != 0) _exit(1);
  char byte;
  ssize_t size = -1;
  do {
    size = read(kept, &byte, 1);
  } while (size < 0 && errno == EINTR);
  if (size == 0) kill_job(mark);
  _exit(0);
}

}  // namespace

Keeper::Keeper(const std::string& mark) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail(WEFT_RESOURCE_EXHAUSTED, "cannot make a pipe: {}", std::strerror(errno));
  Descriptor line(ends[0]);
  line_ = Descriptor(ends[1]);
  process_ = fork();
  if (process_ < 0) fail(WEFT_RESOURCE_EXHAUSTED, "cannot start a process: {}", std::strerror(errno));
  if (process_ == 0) {
    line_.reset();
    keep(line.get(), mark);
  }
}

Keeper::~Keeper() {
  if (write(line_.get(), "!", 1) < 0) line_.reset();
  waitpid(process_, nullptr, 0);
}

}  // namespace weft::launch

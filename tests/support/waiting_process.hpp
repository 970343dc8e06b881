// A process that holds something, such as a lock, until the test kills it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace weft::test {

// Starts a child that runs `take` and then waits. Returns when `take` has returned there.
inline pid_t start_waiting(const std::function<void()>& take) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take();
    [[maybe_unused]] const auto written = write(ends[1], "x", 1);
    for (;;) pause();
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  close(ends[0]);
  return process;
}

inline void end_waiting(pid_t process) {
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

}  // namespace weft::test

#include "standard_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "engine_verb.hpp"

namespace weft::cli {

namespace {

int failure = 0;  // errno of the first write that failed

ssize_t write_out(void*, const char* data, size_t size) {
  size_t done = 0;
  while (failure == 0 && done < size) {
    const ssize_t written = write(STDOUT_FILENO, data + done, size - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // a terminal or a pipe that somebody made non-blocking
      pollfd writable = {STDOUT_FILENO, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      failure = errno;
    }
  }
  return failure == 0 ? static_cast<ssize_t>(size) : 0;
}

}  // namespace

void begin_output() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = open("/dev/null", O_RDONLY);
  if (opened >= 0) close(opened);
  // The stream of the C library forgets the reason.
  cookie_io_functions_t functions = {};
  functions.write = &write_out;
  FILE* const stream = fopencookie(nullptr, "w", functions);
  if (stream == nullptr) return;
  setvbuf(stream, nullptr, isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF, BUFSIZ);
  stdout = stream;
}

void finish_output() {
  std::fflush(stdout);
  // A file system of another host may say only here that it has no room.
  const int copy = failure == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
  if (copy >= 0 && close(copy) != 0) failure = errno;
  if (failure == 0 || failure == EPIPE) return;
  const bool is_full = failure == ENOSPC || failure == EDQUOT || failure == EFBIG;
  fail_verb(
      is_full ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
      std::string("the output is not complete, because stdout cannot be written: ") + std::strerror(failure));
}

}  // namespace weft::cli

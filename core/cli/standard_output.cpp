#include "standard_output.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/files.hpp"
#include "engine_verb.hpp"

namespace weft::cli {

namespace {

int failure = 0;  // errno of the first write that failed

ssize_t write_out(void*, const char* data, size_t size) {
  if (failure == 0) failure = write_all(STDOUT_FILENO, {data, size});
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

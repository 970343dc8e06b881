// A limit of the sizes of files in this process, which a write beyond it reports as a full disk does.
#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace weft::test {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit own = before_;
    own.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &own);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace weft::test

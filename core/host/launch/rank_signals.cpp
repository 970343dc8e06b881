#include "host/launch/rank_signals.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "base/signals.hpp"
#include "host/launch/failure_report.hpp"

namespace weft {
namespace {

void ignore(int number) {
  if (has_default_action(number)) signal(number, SIG_IGN);
}

// The code below runs in a signal handler and must not allocate.

struct Text {
  char data[1000];
  size_t size = 0;

  void add(const char* part, size_t length) {
    length = length < sizeof(data) - size ? length : sizeof(data) - size;
    std::memcpy(data + size, part, length);
    size += length;
  }
  void add(const char* part) { add(part, std::strlen(part)); }
};

// Reads /proc/self/maps, whose lines are BEGIN-END RIGHTS OFFSET DEVICE INODE PATH.
class Maps {
 public:
  Maps() : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~Maps() { close(fd_); }
  Maps(const Maps&) = delete;

  // Returns the path of the file that is mapped at this address, or "" if there is none.
  const char* path_at(uintptr_t address) {
    while (read_line()) {
      char* next = nullptr;
      const uintptr_t begin = hexadecimal(line_, &next);
      const uintptr_t end = hexadecimal(next + 1, &next);
      if (address < begin || address >= end) continue;
      const char* path = std::strchr(line_, '/');
      return path != nullptr ? path : "";
    }
    return "";
  }

 private:
  static uintptr_t hexadecimal(char* text, char** next) {
    uintptr_t value = 0;
    for (;; ++text) {
      const char c = *text;
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<uintptr_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        value = value * 16 + static_cast<uintptr_t>(c - 'a' + 10);
      else
        break;
    }
    *next = text;
    return value;
  }
  bool read_line() {
    size_t length = 0;
    for (char c = 0; next_byte(c);) {
      if (c == '\n') {
        line_[length] = '\0';
        return true;
      }
      if (length + 1 < sizeof(line_)) line_[length++] = c;
    }
    return false;
  }
  bool next_byte(char& c) {
    if (place_ == filled_) {
      const ssize_t size = read(fd_, buffer_, sizeof(buffer_));
      if (size <= 0) return false;
      place_ = 0;
      filled_ = static_cast<size_t>(size);
    }
    c = buffer_[place_++];
    return true;
  }

  int fd_;
  char buffer_[4096], line_[1000];
  size_t place_ = 0, filled_ = 0;
};

void on_bus_error(int number, siginfo_t* info, void*) {
  const char* path = "";
  Maps maps;
  if (info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR)
    path = maps.path_at(reinterpret_cast<uintptr_t>(info->si_addr));
  if (*path == '\0') {  // no mapped file: the signal has its default effect
    signal(number, SIG_DFL);
    return;
  }
  Text text;
  text.add(path);
  text.add(
      ": this file became shorter while it was mapped, or its disk failed or is full (SIGBUS); leave the "
      "files of a running job alone and start it again, with --resume where it was saved");
  launch::report_failure_in_handler(WEFT_DATA_LOSS, text.data, text.size);
  _exit(1);
}

}  // namespace

void prepare_stop_reports(int rank) {
  launch::prepare_signal_reports(rank);
}

void report_stop_signal(int signal, pid_t sender) noexcept {
  launch::report_signal_in_handler(signal, sender);
}

void report_explained(int rank) noexcept {
  launch::report_explained(rank);
}

void ignore_broken_pipes() {
  ignore(SIGPIPE);
}

namespace {
bool ignores_file_size_signal = false;  // and did not when it was started
}

void ignore_file_size_signal() {
  ignores_file_size_signal = has_default_action(SIGXFSZ);
  ignore(SIGXFSZ);
}

void restore_file_size_signal() noexcept {
  if (ignores_file_size_signal) signal(SIGXFSZ, SIG_DFL);
}

void prefer_errors_to_signals(int rank, int world_size) {
  launch::prepare_signal_reports(rank);
  if (world_size > 1) ignore(SIGPIPE);
  if (!has_default_action(SIGBUS)) return;
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace weft

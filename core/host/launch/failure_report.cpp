#include "host/launch/failure_report.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/rank_failure.hpp"
#include "base/text.hpp"
#include "host/launch/inherited.hpp"

namespace weft::launch {
namespace {

constexpr const char* kVariable = "WEFT_REPORT_FD";
constexpr size_t kLongestText = 16 * 1024;
constexpr std::array<char, 4> kMagic = {'W', 'R', 'P', '2'};

// A record is this and the text. SOCK_SEQPACKET keeps records apart and whole, and the socket's own length is
// the text's.
struct Header {
  std::array<char, 4> magic;
  Report::Kind kind;
  int32_t rank, number, sender;
};

std::string_view cut(std::string_view text) {
  if (text.size() <= kLongestText) return text;
  size_t size = kLongestText;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80)
    --size;  // not inside a UTF-8 character
  return text.substr(0, size);
}

// Safe in signal handlers.
bool send_record(int fd, Header header, const char* text, size_t size) noexcept {
  iovec parts[2] = {{&header, sizeof(header)}, {const_cast<char*>(text), size}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t sent = -1;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(header) + size);
}

// Of prepare_signal_reports().
int handler_fd = -1;
int handler_rank = 0;

}  // namespace

bool has_report_channel() {
  return inherited_descriptor(kVariable) >= 0;
}

void report_failure(int rank, weft_status status, std::string_view text) noexcept try {
  text = cut(text);
  const int fd = inherited_descriptor(kVariable);
  const Header header = {kMagic, Report::Kind::kFailure, rank, status, 0};
  if (fd >= 0 && send_record(fd, header, text.data(), text.size())) return;
  const std::string line = fmt::format("weft: {}\n", failure_of_rank(rank, text));
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nowhere left to say it
} catch (...) {                                                    // out of memory: the exit code still tells
}

void report_explained(int rank) noexcept {
  if (const int fd = inherited_descriptor(kVariable); fd >= 0)
    send_record(fd, {kMagic, Report::Kind::kExplained, rank, 0, 0}, "", 0);
}

void prepare_signal_reports(int rank) {
  handler_fd = inherited_descriptor(kVariable);
  handler_rank = rank;
}

void report_signal_in_handler(int signal, pid_t sender) noexcept {
  const int error = errno;
  if (handler_fd >= 0)
    send_record(handler_fd, {kMagic, Report::Kind::kSignal, handler_rank, signal, sender}, "", 0);
  errno = error;
}

void report_failure_in_handler(weft_status status, const char* text, size_t size) noexcept {
  const Header header = {kMagic, Report::Kind::kFailure, handler_rank, status, 0};
  if (handler_fd >= 0 && send_record(handler_fd, header, text, size)) return;
  char line[1100] = "weft: ";
  const size_t begin = std::strlen(line);
  const size_t length = std::min(size, sizeof(line) - begin - 1);
  std::memcpy(line + begin, text, length);
  line[begin + length] = '\n';
  if (write(STDERR_FILENO, line, begin + length + 1) < 0) return;
}

ReportChannel::ReportChannel() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    fail(WEFT_RESOURCE_EXHAUSTED, "cannot open a socket for the reports of ranks: {}", std::strerror(errno));
  }
  own_ = Descriptor(fds[0]);
  ranks_ = Descriptor(fds[1]);
  variable_ = fmt::format("{}={}", kVariable, identity_of(ranks_.get()));
}

std::optional<Report> ReportChannel::read() {
  std::vector<char> record(sizeof(Header) + kLongestText);
  for (;;) {
    const ssize_t size = recv(own_.get(), record.data(), record.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::nullopt;
    Header header = {};
    if (static_cast<size_t>(size) < sizeof(header)) continue;
    std::memcpy(&header, record.data(), sizeof(header));
    if (header.magic != kMagic) continue;
    return Report{header.kind, header.rank, header.number, header.sender,
                  std::string(record.data() + sizeof(header), static_cast<size_t>(size) - sizeof(header))};
  }
}

}  // namespace weft::launch

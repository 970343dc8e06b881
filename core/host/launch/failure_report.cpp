#include "host/launch/failure_report.hpp"

#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/environment.hpp"
#include "base/rank_failure.hpp"
#include "base/text.hpp"

namespace weft::launch {
namespace {

constexpr const char* kVariable = "WEFT_REPORT_FD";
constexpr size_t kLongestText = 16 * 1024;
constexpr std::array<char, 4> kMagic = {'W', 'R', 'P', '1'};

// A record is this and the text. SOCK_SEQPACKET keeps records apart and whole, and the socket's own length is
// the text's.
struct Header {
  std::array<char, 4> magic;
  int32_t rank;
};

// FD:INODE. The inode tells our socket from one that a program in between opened under the same number.
std::string identity(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) return "";
  return fmt::format("{}:{}", fd, status.st_ino);
}

int report_fd() {
  const std::string value = environment(kVariable).value_or("");
  int fd = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), fd);
  return error == std::errc() && fd >= 0 && identity(fd) == value ? fd : -1;
}

std::string_view cut(std::string_view text) {
  if (text.size() <= kLongestText) return text;
  size_t size = kLongestText;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80)
    --size;  // not inside a UTF-8 character
  return text.substr(0, size);
}

bool send_report(int fd, int rank, std::string_view text) {
  const Header header = {kMagic, rank};
  std::vector<char> record(sizeof(header) + text.size());
  std::memcpy(record.data(), &header, sizeof(header));
  std::memcpy(record.data() + sizeof(header), text.data(), text.size());
  ssize_t sent = -1;
  do {
    sent = send(fd, record.data(), record.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(record.size());
}

}  // namespace

bool has_report_channel() {
  return report_fd() >= 0;
}

void report_failure(int rank, std::string_view text) noexcept try {
  text = cut(text);
  const int fd = report_fd();
  if (fd >= 0 && send_report(fd, rank, text)) return;
  const std::string line = fmt::format("weft: {}\n", failure_of_rank(rank, text));
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nowhere left to say it
} catch (...) {                                                    // out of memory: the exit code still tells
}

ReportChannel::ReportChannel() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    fail(WEFT_RESOURCE_EXHAUSTED, "cannot open a socket for the reports of ranks: {}", std::strerror(errno));
  }
  own_ = Descriptor(fds[0]);
  ranks_ = Descriptor(fds[1]);
  variable_ = fmt::format("{}={}", kVariable, identity(ranks_.get()));
}

std::optional<FailureReport> ReportChannel::read() {
  std::vector<char> record(sizeof(Header) + kLongestText);
  for (;;) {
    const ssize_t size = recv(own_.get(), record.data(), record.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::nullopt;
    Header header = {};
    if (static_cast<size_t>(size) < sizeof(header)) continue;
    std::memcpy(&header, record.data(), sizeof(header));
    if (header.magic != kMagic) continue;
    return FailureReport{header.rank, std::string(record.data() + sizeof(header), size - sizeof(header))};
  }
}

}  // namespace weft::launch

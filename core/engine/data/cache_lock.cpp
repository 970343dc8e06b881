#include "data/cache_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace weft::data {

namespace {

// The file contains a status in one byte, then the text of an error.
std::optional<Error> read_failure(int file) {
  std::string text(4096, '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size < 2) return std::nullopt;
  return Error(static_cast<weft_status>(text[0]), text.substr(1, static_cast<size_t>(size) - 1));
}

}  // namespace

CacheLock::CacheLock(const std::filesystem::path& path) {
  const std::string file = path.string() + ".lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(WEFT_UNAVAILABLE, "cannot create {}: {}", file, std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
    failure_ = read_failure(descriptor_);
  }
  // A process that is killed tells nothing, so that the next one makes the cache.
  if (!failure_) [[maybe_unused]]
    const int emptied = ::ftruncate(descriptor_, 0);
}

CacheLock::~CacheLock() {
  ::close(descriptor_);
}

void CacheLock::tell(const Error& error) {
  const std::string text = static_cast<char>(error.status()) + std::string(error.what());
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor_, text.data(), text.size(), 0);
}

}  // namespace weft::data

#include "base/files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace weft {
namespace {

constexpr size_t kLongestPath = 4096;
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  int number;
};

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const std::string shown = printable(path.native(), kLongestPath);
  // Opens without blocking, because `path` may be a named pipe.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) fail(WEFT_NOT_FOUND, "cannot open {}: {}", shown, std::strerror(errno));
  struct stat status = {};
  if (fstat(file.number, &status) != 0 || !S_ISREG(status.st_mode)) {
    fail(WEFT_INVALID_ARGUMENT, "{} is not a regular file", shown);
  }
  const auto refuse_size = [&](const std::string& size) {
    fail(WEFT_INVALID_ARGUMENT, "{} has {} bytes, more than the {} that are read of such a file", shown, size,
         max_bytes);
  };
  const auto size = static_cast<size_t>(status.st_size);  // 0 for files of the kernel
  if (size > max_bytes) refuse_size(std::to_string(size));
  std::string bytes;
  bytes.reserve(size);
  char buffer[1 << 14];
  for (;;) {
    const ssize_t count = read(file.number, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(WEFT_DATA_LOSS, "cannot read {}: {}", shown, std::strerror(errno));
    if (count == 0) break;
    bytes.append(buffer, static_cast<size_t>(count));
    if (bytes.size() > max_bytes) refuse_size("too many");
  }
  refuse_lfs_pointer(bytes, shown);
  return bytes;
}

void refuse_lfs_pointer(std::string_view bytes, std::string_view shown) {
  if (bytes.starts_with(kLfsPointer))
    fail(WEFT_DATA_LOSS,
         "{} is a Git LFS pointer in place of the file that it names; install git-lfs and run `git lfs pull` "
         "in that folder",
         shown);
}

int write_all(int descriptor, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable = {descriptor, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace weft

#include "step_log/record_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.hpp"
#include "base/text.hpp"

namespace weft::step_log {

namespace {

// Returns the size of a regular file, or -1.
off_t size_of(int descriptor) {
  struct stat status = {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

}  // namespace

int RecordFile::open(const std::filesystem::path& path, bool is_new) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | (is_new ? O_EXCL : 0) | O_CLOEXEC, 0666);
  return descriptor_ < 0 ? errno : 0;
}

void RecordFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

int RecordFile::resize(uintmax_t bytes) const {
  if (size_of(descriptor_) < 0) return 0;
  return ::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

int RecordFile::try_append(std::string_view record) const {
  return write_all(descriptor_, record);
}

void RecordFile::append(std::string_view record) {
  if (!is_open()) return;
  const off_t before = size_of(descriptor_);
  const int code = try_append(record);
  if (code == 0) return;
  if (code == EPIPE) {
    // `--metrics /dev/stdout | head`: that nobody looks on is no reason to lose the training.
    world_.print_on_master(fmt::format("{}: nobody reads it any more; the job continues", named_));
    return close();
  }
  if (before >= 0) resize(static_cast<uintmax_t>(before));
  close();
  is_incomplete_ = true;
  world_.print_on_master(
      fmt::format("{}: writing failed: {}; nothing more is written there, and the job continues", named_,
                  std::strerror(code)));
}

}  // namespace weft::step_log

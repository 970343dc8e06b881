#include "loader/mapped_file.hpp"

#include <c10/util/ScopeExit.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/files.hpp"
#include "base/text.hpp"

namespace weft::data {

MappedFile::MappedFile(const std::string& path) {
  // Opens without blocking, because `path` may be a named pipe.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    fail(errno == ENOENT || errno == ENOTDIR ? WEFT_NOT_FOUND : WEFT_PERMISSION_DENIED,
         "{}: cannot be read: {}", path, std::strerror(errno));
  const auto close = c10::make_scope_exit([&] { ::close(descriptor); });
  map(descriptor, path);
}

MappedFile::MappedFile(int descriptor, const std::string& path) {
  map(descriptor, path);
}

void MappedFile::map(int descriptor, const std::string& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    fail(WEFT_INVALID_ARGUMENT, "{} is not a regular file", path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED)
    fail(WEFT_PERMISSION_DENIED, "{}: cannot be read: {}", path, std::strerror(errno));
  first_ = static_cast<const char*>(mapped);
  size_ = size;
  refuse_lfs_pointer(bytes(), path);
}

MappedFile::~MappedFile() {
  if (first_ != nullptr) ::munmap(const_cast<char*>(first_), size_);
}

}  // namespace weft::data

// A file in memory, read-only. If another process truncates it, reading it ends this process with SIGBUS.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::data {

class MappedFile {
 public:
  // Throws NOT_FOUND or PERMISSION_DENIED with the path, INVALID_ARGUMENT if it is not a regular file, and
  // DATA_LOSS if it is a Git LFS pointer.
  explicit MappedFile(const std::string& path);
  // Maps an open regular file, and leaves it open. `path` is for messages.
  MappedFile(int descriptor, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;

  std::string_view bytes() const { return {first_, size_}; }

 private:
  void map(int descriptor, const std::string& path);

  const char* first_ = nullptr;  // null for an empty file
  size_t size_ = 0;
};

}  // namespace weft::data

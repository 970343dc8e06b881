// Memory whose neighbours nobody may touch, and the report of a thread that does.
#pragma once

#include <cstddef>
#include <string>

namespace on_host {

// Bytes of 0xFF, which are NaN in every floating type. They begin `past` bytes after a multiple of 16, and
// behind the last one, at most 15 bytes on, is a page that cannot be accessed. damage() checks the bytes
// between and the page before. With AddressSanitizer it is an allocation to the byte.
class GuardedMemory {
 public:
  GuardedMemory() = default;
  GuardedMemory(size_t bytes, size_t past);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void* data() const { return data_; }
  size_t size() const { return bytes_; }
  // Where something was written outside, as "4 bytes past the end"; empty if nothing was.
  std::string damage() const;

 private:
  unsigned char *mapped_ = nullptr, *data_ = nullptr;
  size_t mapped_bytes_ = 0, bytes_ = 0;
};

// While it lives, an access to memory that the process may not touch ends the process with a message that
// begins with where().
class AccessReports {
 public:
  explicit AccessReports(std::string (*where)());
  ~AccessReports();
  AccessReports(const AccessReports&) = delete;
  AccessReports& operator=(const AccessReports&) = delete;
};

}  // namespace on_host

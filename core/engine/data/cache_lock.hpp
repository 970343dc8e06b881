// One process at a time makes a cache of token ids.
#pragma once

#include <filesystem>
#include <optional>

#include "weft/error.hpp"

namespace weft::data {

// Holds the kernel's lock (flock) on the file PATH.lock, which ends with its process. The file stays. On a
// file system without locks nobody waits: several processes make the same cache, and each of them is right.
class CacheLock {
 public:
  // Blocks while another process has the lock. Throws UNAVAILABLE if the file cannot be created.
  explicit CacheLock(const std::filesystem::path& path);
  ~CacheLock();
  CacheLock(const CacheLock&) = delete;

  // Returns why the process that this one has waited for could not make the cache.
  const std::optional<Error>& failure() const { return failure_; }
  // Tells the processes that wait for this one that it could not make the cache.
  void tell(const Error& error);

 private:
  int descriptor_ = -1;
  std::optional<Error> failure_;
};

}  // namespace weft::data

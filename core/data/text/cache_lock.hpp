// One process at a time makes a cache of token ids.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/file_lock.hpp"
#include "weft/error.hpp"

namespace weft::data {

// How a process waits for another one that makes the same cache.
struct CacheWait {
  std::string name;                                   // of the source, for messages
  std::chrono::milliseconds timeout;                  // how long the holder of the lock may make no progress
  std::function<void(const std::string& line)> note;  // says once on the master that this process waits
};

// Holds the lock of the file PATH.lock, which stays. On a file system without locks nobody waits: several
// processes make the same cache, and each of them is right.
class CacheLock {
 public:
  // Waits while another process has the lock and makes progress: it touches its lock, or its files beside
  // PATH grow. Prints on stderr, after 10 s and then once a minute without progress, which process that is.
  // Throws UNAVAILABLE, naming it, after `timeout` without progress; and what FileLock::try_lock() throws.
  CacheLock(const std::filesystem::path& path, const CacheWait& wait);

  // Returns why the process that this one has waited for could not make the cache.
  const std::optional<Error>& failure() const { return failure_; }
  // Tells the processes that wait for this one that it could not make the cache.
  void tell(const Error& error);
  // Shows them that this one makes progress. Any thread.
  void touch() const { lock_.touch(); }

 private:
  void await(const std::filesystem::path& path, const CacheWait& wait);

  FileLock lock_;
  std::optional<Error> failure_;
};

}  // namespace weft::data

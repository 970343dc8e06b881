// A file that a job writes while it trains, and that is not worth the training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weft/world.hpp"

namespace weft::step_log {

// A file to which the master appends whole records. The first one that cannot be written ends the file for
// good: a line on stderr says so, and the job goes on. What was written of that record is removed again.
class RecordFile {
 public:
  RecordFile(std::string named, const World& world) : named_(std::move(named)), world_(world) {}
  ~RecordFile() { close(); }
  RecordFile(const RecordFile&) = delete;

  // Opens the file at its end, and creates it if it is not there or `is_new`. Returns 0 or errno.
  int open(const std::filesystem::path& path, bool is_new);
  bool is_open() const { return descriptor_ >= 0; }
  // Cuts a regular file to this size. Returns 0 or errno.
  int resize(uintmax_t bytes) const;

  // Appends a record. Returns 0 or errno, and leaves what could be written.
  int try_append(std::string_view record) const;
  // Does the same, and closes the file if it fails. Does nothing if the file is closed. If nobody reads the
  // other end of a pipe any more, the record has done its work and is whole.
  void append(std::string_view record);
  // Returns what messages call the file, if a record could not be written; otherwise nothing.
  std::optional<std::string> incomplete() const {
    return is_incomplete_ ? std::optional(named_) : std::nullopt;
  }

 private:
  void close();

  std::string named_;
  World world_;
  int descriptor_ = -1;  // open on the master only
  bool is_incomplete_ = false;
};

}  // namespace weft::step_log

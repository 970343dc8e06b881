// A data set of consecutive windows of tokens in a memory-mapped file. A file that another process truncated
// is an error; if that happens during a read, the system ends this process with SIGBUS.
#pragma once

#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"

namespace weft::data {

class TokenWindows final : public Dataset {
 public:
  // `bytes_per_token` is 1, 2 or 4; tokens are unsigned little-endian integers.
  TokenWindows(std::string path, int64_t sequence_length, int bytes_per_token);

  int64_t size() const override { return num_tokens_ / sequence_length_; }
  std::string name() const override { return path_; }
  Batch get(const std::vector<int64_t>& indices) const override;

  // Throws INVALID_ARGUMENT naming the first token that is not less than `vocabulary_size`. Reads the whole
  // file, unless every token of this width is less.
  void check_vocabulary(int64_t vocabulary_size) const;
  // Returns the position of the first zero byte among the first `limit` bytes, or -1.
  int64_t first_zero_byte(int64_t limit) const;

 private:
  std::string path_;
  int64_t sequence_length_;
  int bytes_per_token_;
  int64_t num_tokens_ = 0;
  void check_size() const;

  boost::interprocess::file_mapping file_;
  boost::interprocess::mapped_region region_;
};

}  // namespace weft::data

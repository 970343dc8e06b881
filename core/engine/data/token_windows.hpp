// Samples cut from one long row of tokens in a mapped file.
#pragma once

#include <boost/interprocess/mapped_region.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"

namespace weft::data {

// Throws NOT_FOUND if there is nothing at `path`, INVALID_ARGUMENT if it is a folder or anything else but a
// file.
void check_is_file(const std::string& path);

// The message for a token that a vocabulary does not have.
[[noreturn]] void refuse_token(const std::string& path, const std::string& where, int64_t token,
                               int64_t vocabulary_size);

class TokenWindows final : public Dataset {
 public:
  // Tokens are unsigned little-endian integers of 1, 2 or 4 bytes.
  TokenWindows(std::string path, int64_t sequence_length, int bytes_per_token);

  int64_t size() const override { return num_tokens_ / sequence_length_; }
  Batch get(const std::vector<int64_t>& indices) const override;

  // Throws INVALID_ARGUMENT for the first token of the file that is not below `vocabulary_size`. Reads the
  // whole file unless no token of this width can be too large.
  void check_vocabulary(int64_t vocabulary_size) const;
  // The position of the first zero byte among the first `limit` bytes, or -1.
  int64_t first_zero_byte(int64_t limit) const;

 private:
  std::string path_;
  int64_t sequence_length_;
  int bytes_per_token_;
  int64_t num_tokens_ = 0;
  boost::interprocess::mapped_region region_;
};

}  // namespace weft::data

#include "text/token_windows.hpp"

#include <ATen/ops/empty.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/interprocess/exceptions.hpp>
#include <cstring>

#include "base/files.hpp"
#include "base/text.hpp"
#include "loader/shared_checks.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace ipc = boost::interprocess;

namespace {

// Calls `action` with the tokens as an array of their type. Files are little-endian, as is every host that
// Weft runs on.
template <typename Action>
auto with_tokens(const void* address, int bytes_per_token, const Action& action) {
  switch (bytes_per_token) {
    case 1:
      return action(static_cast<const uint8_t*>(address));
    case 2:
      return action(static_cast<const uint16_t*>(address));
    default:
      return action(static_cast<const uint32_t*>(address));
  }
}

ipc::file_mapping open_file(const std::string& path) {
  try {
    return {path.c_str(), ipc::read_only};
  } catch (const ipc::interprocess_exception& exception) {
    fail(WEFT_PERMISSION_DENIED, "{}: cannot be read: {}", path, exception.what());
  }
}

}  // namespace

TokenWindows::TokenWindows(std::string path, int64_t sequence_length, int bytes_per_token)
    : path_(std::move(path)), sequence_length_(sequence_length), bytes_per_token_(bytes_per_token) {
  if (sequence_length < 1) {
    fail(WEFT_INVALID_ARGUMENT, "{}: sequence length is {}, must be at least 1 (--sequence-length)", path_,
         sequence_length);
  }
  check_is_file(path_);
  std::error_code error;
  const auto size_bytes = static_cast<int64_t>(std::filesystem::file_size(path_, error));
  if (error) fail(WEFT_DATA_LOSS, "{}: {}", path_, error.message());
  if (size_bytes == 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: the file is empty; it must hold tokens (--data)", path_);
  file_ = open_file(path_);
  try {
    region_ = ipc::mapped_region(file_, ipc::read_only);
  } catch (const ipc::interprocess_exception& exception) {
    fail(WEFT_PERMISSION_DENIED, "{}: cannot be mapped: {}", path_, exception.what());
  }
  // The file can shrink between the two calls above.
  if (static_cast<int64_t>(region_.get_size()) < size_bytes) {
    fail(WEFT_DATA_LOSS, "{}: it became shorter while it was opened", path_);
  }
  refuse_lfs_pointer({static_cast<const char*>(region_.get_address()), region_.get_size()}, path_);
  if (size_bytes % bytes_per_token != 0) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} bytes, must be a multiple of the {} bytes of a token; the file was cut short, or "
         "--token-type is wrong",
         path_, size_bytes, bytes_per_token);
  }
  num_tokens_ = size_bytes / bytes_per_token;
  if (num_tokens_ < sequence_length) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: {} tokens, shorter than one sample of {}; give a longer file or a smaller --sequence-length",
         path_, num_tokens_, sequence_length);
  }
}

void TokenWindows::check_size() const {
  struct stat status = {};
  const bool is_known = ::fstat(file_.get_mapping_handle().handle, &status) == 0;
  if (is_known && static_cast<size_t>(status.st_size) < region_.get_size())
    fail(WEFT_DATA_LOSS, "{}: this file became shorter while it was mapped: it had {} bytes and now has {}",
         path_, region_.get_size(), status.st_size);
}

Batch TokenWindows::get(const std::vector<int64_t>& indices) const {
  check_size();
  const auto count = static_cast<int64_t>(indices.size());
  const at::Tensor ids = at::empty({count, sequence_length_}, at::kLong);
  auto* out = ids.mutable_data_ptr<int64_t>();
  with_tokens(region_.get_address(), bytes_per_token_, [&](const auto* tokens) {
    for (const int64_t index : indices) {
      if (index < 0 || index >= size())
        fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", path_, index, size());
      out = std::copy_n(tokens + index * sequence_length_, sequence_length_, out);
    }
  });
  Batch batch;
  batch.set(nn::kInputIds, ids);
  batch.set(nn::kLabels, ids);
  return batch;
}

void TokenWindows::check_vocabulary(int64_t vocabulary_size) const {
  if (vocabulary_size >= int64_t{1} << (8 * bytes_per_token_)) return;
  with_tokens(region_.get_address(), bytes_per_token_, [&](const auto* tokens) {
    // Compute the maximum of a block first: that loop is vectorized, and an invalid token is rare.
    constexpr int64_t kBlock = 1 << 16;
    for (int64_t begin = 0; begin < num_tokens_; begin += kBlock) {
      const int64_t end = std::min(begin + kBlock, num_tokens_);
      auto largest = tokens[begin];
      for (int64_t i = begin; i < end; ++i) largest = std::max(largest, tokens[i]);
      if (largest < vocabulary_size) continue;
      const auto* found =
          std::find_if(tokens + begin, tokens + end, [&](auto t) { return t >= vocabulary_size; });
      refuse_token(path_, fmt::format("at position {}", found - tokens), *found, vocabulary_size);
    }
  });
}

int64_t TokenWindows::first_zero_byte(int64_t limit) const {
  const auto size_bytes = static_cast<size_t>(std::min(limit, num_tokens_ * bytes_per_token_));
  const void* found = std::memchr(region_.get_address(), 0, size_bytes);
  return found ? static_cast<const char*>(found) - static_cast<const char*>(region_.get_address()) : -1;
}

}  // namespace weft::data

#include "files/fingerprint.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "base/sha256.hpp"
#include "base/text.hpp"

namespace weft::checkpoint {

namespace {

constexpr int64_t kBlock = 1024;   // elements, about a page of memory
constexpr int64_t kBlocks = 2048;  // of a whole checkpoint, unless it has more tensors

// Adds `wanted` blocks of one tensor, from its begin to its end, or all if it has fewer; the first if one is
// wanted.
void add_blocks(const TensorSource& source, size_t index, int64_t wanted, Sha256& digest) {
  const Entry& entry = source.entries()[index];
  const int64_t elements = entry.numel(), block = std::min(kBlock, elements);
  if (elements == 0) return;
  const int64_t blocks = std::min(wanted, (elements + block - 1) / block);
  const at::Tensor values = at::empty({block}, entry.dtype);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t begin =
        blocks == 1 ? 0
                    : static_cast<int64_t>(static_cast<double>(elements - block) * static_cast<double>(b) /
                                           static_cast<double>(blocks - 1));
    source.read_range(index, begin, values);
    digest.update(values.data_ptr(), values.nbytes());
  }
}

}  // namespace

std::string fingerprint(const TensorSource& source) {
  const std::vector<Entry>& entries = source.entries();
  double total = 0;
  for (const Entry& entry : entries) total += static_cast<double>(entry.numel());
  std::vector<size_t> by_name(entries.size());
  std::iota(by_name.begin(), by_name.end(), size_t{0});
  std::sort(by_name.begin(), by_name.end(),
            [&](size_t a, size_t b) { return entries[a].name < entries[b].name; });
  Sha256 digest;
  for (const size_t i : by_name) {
    const Entry& entry = entries[i];
    const std::string head =
        fmt::format("{} {} {}\n", entry.name, c10::toString(entry.dtype), fmt::join(entry.shape, ","));
    digest.update(head.data(), head.size());
    const double share = static_cast<double>(entry.numel()) / std::max(total, 1.0);
    add_blocks(source, i, 1 + static_cast<int64_t>(share * static_cast<double>(kBlocks)), digest);
  }
  return digest.finish();
}

std::string compared_content(const TensorSource& source) {
  return digest_prefix(fingerprint(source));
}

}  // namespace weft::checkpoint

// Many ranges of memory in one launch: each block of threads works on one chunk of one range. The tables
// (ranges and chunks) lie in device memory and are made again only when addresses or lengths change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft::kernels::cuda {

constexpr int32_t kChunkElements = 8192;

// Elements [begin, begin + count) of the range with index `range`.
struct Chunk {
  int64_t begin;
  int32_t range, count;
};

// Cuts ranges of these lengths into chunks.
inline std::vector<Chunk> chunks_of(const std::vector<int64_t>& lengths) {
  std::vector<Chunk> chunks;
  for (size_t range = 0; range < lengths.size(); ++range)
    for (int64_t begin = 0; begin < lengths[range]; begin += kChunkElements)
      chunks.push_back({begin, static_cast<int32_t>(range),
                        static_cast<int32_t>(std::min<int64_t>(kChunkElements, lengths[range] - begin))});
  return chunks;
}

}  // namespace weft::kernels::cuda

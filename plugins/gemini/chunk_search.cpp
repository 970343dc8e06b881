#include "chunk_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "weft/error.hpp"

namespace weft::plugin::gemini {

namespace {

constexpr double kMega = 1 << 20;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(WEFT_INVALID_ARGUMENT, "gemini: " + what);
}

void check(const SearchOptions& options) {
  if (options.hidden_dim < 1)
    refuse("hidden_dim is " + std::to_string(options.hidden_dim) + ", must be at least 1");
  for (const auto& [value, name] : {std::pair{options.search_range_m, "search_range_m"},
                                    std::pair{options.min_chunk_size_m, "min_chunk_size_m"}})
    if (!(value >= 0 && value <= 1 << 20))
      refuse(std::string(name) + " is " + std::to_string(value) + ", must be from 0 to 2^20 (times 2^20)");
}

int64_t best_size(const std::vector<int64_t>& sizes, int64_t least, const SearchOptions& options) {
  const int64_t range = std::llround(options.search_range_m * kMega), step = options.hidden_dim;
  const int64_t first = round_up(std::max(least, *std::max_element(sizes.begin(), sizes.end())), step);
  int64_t best = first, least_waste = std::numeric_limits<int64_t>::max();
  for (int64_t size = first; size <= first + range && least_waste > 0; size += step) {
    const int64_t left = waste(sizes, size);
    if (left < least_waste) best = size, least_waste = left;
  }
  return best;
}

}  // namespace

double ChunkLayout::wasted_percent() const {
  return used + wasted > 0 ? 100.0 * static_cast<double>(wasted) / static_cast<double>(used + wasted) : 0;
}

double outlier_limit(const std::vector<int64_t>& sizes) {
  if (sizes.empty()) return 0;
  const double count = static_cast<double>(sizes.size());
  double sum = 0, squares = 0;
  for (const int64_t size : sizes) sum += static_cast<double>(size);
  const double mean = sum / count;
  for (const int64_t size : sizes)
    squares += (static_cast<double>(size) - mean) * (static_cast<double>(size) - mean);
  return mean + 3 * std::sqrt(squares / count);
}

int64_t waste(const std::vector<int64_t>& sizes, int64_t chunk_size) {
  int64_t wasted = 0, left = 0;
  for (const int64_t size : sizes) {
    if (size > left) {
      wasted += left;
      left = chunk_size;
    }
    left -= size;
  }
  return wasted + left;
}

ChunkLayout search_chunks(const std::vector<int64_t>& sizes, int64_t ranks, const SearchOptions& options) {
  check(options);
  ChunkLayout layout;
  layout.used = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sizes.empty()) return layout;
  const int64_t least = std::llround(options.min_chunk_size_m * kMega);
  const bool small = layout.used < least && options.chunk_size == 0;
  double limit = small ? std::numeric_limits<double>::infinity() : outlier_limit(sizes);
  if (options.chunk_size > 0) limit = std::min(limit, static_cast<double>(options.chunk_size));
  std::vector<int64_t> ordinary;
  for (const int64_t size : sizes)
    if (static_cast<double>(size) <= limit) ordinary.push_back(size);
  layout.outliers = sizes.size() - ordinary.size();
  if (!ordinary.empty()) {
    layout.chunk_size = options.chunk_size > 0 ? options.chunk_size
                        : small                ? layout.used
                                               : best_size(ordinary, least, options);
    layout.chunk_size = round_up(std::max<int64_t>(layout.chunk_size, 1), ranks);
  }
  // The parameters before and after an outlier may share a chunk.
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  size_t open = kNone;
  int64_t left = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(static_cast<double>(sizes[i]) <= limit)) {
      layout.chunks.push_back({round_up(sizes[i], ranks), {{i, 0, sizes[i]}}});
      continue;
    }
    if (open == kNone || sizes[i] > left) {
      open = layout.chunks.size();
      layout.chunks.push_back({layout.chunk_size, {}});
      left = layout.chunk_size;
    }
    layout.chunks[open].places.push_back({i, layout.chunk_size - left, sizes[i]});
    left -= sizes[i];
  }
  for (const ChunkPlan& chunk : layout.chunks) layout.wasted += chunk.size;
  layout.wasted -= layout.used;
  return layout;
}

ChunkLayout search_chunks(const std::vector<int64_t>& sizes, const std::vector<uint32_t>& dtypes,
                          int64_t ranks, const SearchOptions& options) {
  std::vector<uint32_t> different;
  for (const uint32_t dtype : dtypes)
    if (std::find(different.begin(), different.end(), dtype) == different.end()) different.push_back(dtype);
  if (different.size() < 2) return search_chunks(sizes, ranks, options);
  ChunkLayout layout;
  for (const uint32_t dtype : different) {
    std::vector<int64_t> own_sizes;
    std::vector<size_t> own;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (dtypes[i] != dtype) continue;
      own_sizes.push_back(sizes[i]);
      own.push_back(i);
    }
    ChunkLayout part = search_chunks(own_sizes, ranks, options);
    for (ChunkPlan& chunk : part.chunks) {
      for (Place& place : chunk.places) place.parameter = own[place.parameter];
      layout.chunks.push_back(std::move(chunk));
    }
    layout.chunk_size = std::max(layout.chunk_size, part.chunk_size);
    layout.used += part.used;
    layout.wasted += part.wasted;
    layout.outliers += part.outliers;
  }
  return layout;
}

}  // namespace weft::plugin::gemini

// Chooses the chunk size by the search of Colossal-AI, from the sizes of the parameters alone.
//
// Parameters are packed in execution order into chunks of equal size. A parameter that does not fit into the
// rest of a chunk begins the next one, and the rest is wasted. Parameters larger than the mean plus 3
// standard deviations get a chunk of their own. The search tries every multiple of `hidden_dim` in its range
// and chooses the size that wastes least, the smaller one if two waste the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::plugin::gemini {

struct SearchOptions {
  double search_range_m = 32;    // how far to search above the smallest size, in 2^20 elements
  int64_t hidden_dim = 1024;     // sizes are multiples of it
  double min_chunk_size_m = 32;  // the smallest size, in 2^20 elements; a smaller model is one chunk
  int64_t chunk_size = 0;        // in elements; if not 0, it is used and there is no search
};

// One parameter in a chunk.
struct Place {
  size_t parameter;  // index into the sizes
  int64_t offset;    // elements from the beginning of the chunk
  int64_t count;
};

struct ChunkPlan {
  int64_t size = 0;  // elements, a multiple of `ranks`
  std::vector<Place> places;
};

struct ChunkLayout {
  int64_t chunk_size = 0;  // of chunks without an outlier
  std::vector<ChunkPlan> chunks;
  int64_t used = 0;     // elements of parameters
  int64_t wasted = 0;   // elements of chunks that hold no parameter
  size_t outliers = 0;  // parameters with a chunk of their own
  double wasted_percent() const;
};

// Returns the size above which a parameter is an outlier.
double outlier_limit(const std::vector<int64_t>& sizes);

// Returns how many elements are wasted if `sizes` are packed in their order into chunks of `chunk_size`.
int64_t waste(const std::vector<int64_t>& sizes, int64_t chunk_size);

// Returns the chunks for parameters of `sizes` elements in execution order. Every chunk size is a multiple of
// `ranks`. Throws INVALID_ARGUMENT if the options leave no size to try.
ChunkLayout search_chunks(const std::vector<int64_t>& sizes, int64_t ranks, const SearchOptions& options);
// Does the same for the parameters of each dtype by themselves: `dtypes` has one for each parameter. The
// chunks of the dtype that comes first stand first.
ChunkLayout search_chunks(const std::vector<int64_t>& sizes, const std::vector<uint32_t>& dtypes,
                          int64_t ranks, const SearchOptions& options);

}  // namespace weft::plugin::gemini

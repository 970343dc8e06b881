// Chunk sizes, as Colossal-AI's search chooses them: pure functions of the parameters' sizes.
//
// Parameters are packed in execution order into chunks of one size; one that does not fit into the rest of a
// chunk begins the next, and what is left is wasted. Parameters larger than mean + 3 standard deviations get
// a chunk of their own. The search tries every multiple of `hidden_dim` in its range and takes the smallest
// waste, the smaller size among equals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::gemini {

struct SearchOptions {
  double search_range_m = 32;    // how far beyond the smallest possible size, in 2^20 elements
  int64_t hidden_dim = 1024;     // sizes are multiples of it
  double min_chunk_size_m = 32;  // in 2^20 elements; a model that is smaller is one chunk
  int64_t chunk_size = 0;        // elements; 0: searched, otherwise taken as it stands
};

// One parameter in a chunk.
struct Place {
  size_t parameter;  // index in the sizes given
  int64_t offset;    // elements from the chunk's begin
  int64_t count;
};

struct ChunkPlan {
  int64_t size = 0;  // elements, a multiple of `ranks`
  std::vector<Place> places;
};

struct ChunkLayout {
  int64_t chunk_size = 0;  // of chunks that hold no outlier
  std::vector<ChunkPlan> chunks;
  int64_t used = 0;     // elements of parameters
  int64_t wasted = 0;   // elements of chunks that hold no parameter
  size_t outliers = 0;  // parameters with a chunk of their own
  double wasted_percent() const;
};

// The size above which a parameter is an outlier.
double outlier_limit(const std::vector<int64_t>& sizes);

// Elements that `sizes`, packed in order into chunks of `chunk_size`, leave unused.
int64_t waste(const std::vector<int64_t>& sizes, int64_t chunk_size);

// Which parameter goes where. `sizes` are elements in execution order; every chunk divides by `ranks`.
// Throws INVALID_ARGUMENT for options that leave no size to try.
ChunkLayout search_chunks(const std::vector<int64_t>& sizes, int64_t ranks, const SearchOptions& options);

}  // namespace weft::gemini

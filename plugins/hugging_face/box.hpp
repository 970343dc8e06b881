// Boxes inside a tensor: their contiguous runs of bytes, and which elements of a tensor have not been
// written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace weft::hugging_face {

// A contiguous block of a tensor. A box without dimensions is the one element of a scalar.
struct Box {
  std::vector<int64_t> offset;
  std::vector<int64_t> extent;
};

// Returns the box that `offset` and `extent` describe; both are null for the whole tensor. Throws
// INVALID_ARGUMENT if it is not inside the tensor or its size is not `given_bytes`.
Box checked_box(const TensorEntry& entry, const int64_t* offset, const int64_t* extent, uint64_t given_bytes);

std::string box_text(const Box& box);

// Calls run(byte_offset, num_bytes) for each contiguous run of a box, in row-major order. `strides` are those
// of the tensor, in bytes; offsets count from the tensor's first byte.
template <typename Run>
void for_each_run(const Box& box, const std::vector<int64_t>& strides, uint32_t element_bytes, Run&& run) {
  int64_t start = 0;
  for (std::size_t dim = 0; dim < strides.size(); ++dim) {
    if (box.extent[dim] == 0) return;
    start += box.offset[dim] * strides[dim];
  }
  // Trailing dimensions whose elements are contiguous form one run.
  std::size_t outer = strides.size();
  int64_t run_bytes = element_bytes;
  while (outer > 0 && (box.extent[outer - 1] == 1 || strides[outer - 1] == run_bytes)) {
    run_bytes *= box.extent[outer - 1];
    --outer;
  }
  std::vector<int64_t> index(outer, 0);
  for (int64_t position = start;;) {
    run(position, run_bytes);
    std::size_t dim = outer;
    for (; dim > 0; --dim) {
      position += strides[dim - 1];
      if (++index[dim - 1] < box.extent[dim - 1]) break;
      position -= strides[dim - 1] * box.extent[dim - 1];
      index[dim - 1] = 0;
    }
    if (dim == 0) return;
  }
}

// Tracks which elements of a tensor have not been written yet, as disjoint boxes. Writes may overlap.
class Coverage {
 public:
  explicit Coverage(const std::vector<int64_t>& shape);
  void add(const Box& box);
  bool complete() const { return missing_.empty(); }
  const Box& first_missing() const { return missing_.front(); }

 private:
  std::vector<Box> missing_;
};

}  // namespace weft::hugging_face

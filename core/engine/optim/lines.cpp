#include "optim/lines.hpp"

namespace weft::optim {

Line Lines::operator[](int64_t index) const {
  if (length_ == 0) return {begin_ - slice_.begin, end_ - begin_, 0, begin_ - slice_.begin};
  const at::IntArrayRef shape = slice_.parameter->shape;
  const int64_t of_box = begin_ / length_ + index;  // the line's place among those of the box
  const int64_t begin = std::max(begin_, of_box * length_), end = std::min(end_, (of_box + 1) * length_);
  int64_t row = 0, rest = of_box, stride = 1;
  for (size_t dim = shape.size() - 1; dim-- > 0; stride *= shape[dim]) {
    row += (slice_.offset[dim] + rest % slice_.extent[dim]) * stride;
    rest /= slice_.extent[dim];
  }
  const int64_t matrix = row / shape[shape.size() - 2];
  return {begin - slice_.begin, end - begin, row,
          matrix * shape.back() + slice_.offset.back() + (begin - of_box * length_)};
}

}  // namespace weft::optim

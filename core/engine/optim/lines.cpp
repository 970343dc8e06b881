#include "optim/lines.hpp"

#include <numeric>

namespace weft::optim {

Lines::Lines(const Slice& slice, int64_t begin, int64_t count)
    : shape_(slice.parameter->shape),
      cut_(*slice.cut),
      local_(cut_.local()),
      first_(slice.begin),
      begin_(slice.begin + begin),
      end_(slice.begin + begin + count),
      length_(is_factored(shape_) ? std::max<int64_t>(1, local_.back()) : 0),
      of_row_(length_ == 0 ? 1 : static_cast<int64_t>(cut_.dims.back().size())) {}

int64_t Lines::size() const {
  if (begin_ == end_) return 0;
  return length_ == 0 ? 1 : ((end_ - 1) / length_ - begin_ / length_ + 1) * of_row_;
}

Line Lines::operator[](int64_t index) const {
  if (length_ == 0) return {begin_ - first_, end_ - begin_, 0, begin_ - first_};
  const int64_t of_part = begin_ / length_ + index / of_row_;  // index of the row in the part
  // Find where the line begins in the row of the part and in the row of the whole.
  const std::vector<Run>& runs = cut_.dims.back();
  const auto own = static_cast<size_t>(index % of_row_);
  int64_t held = 0;
  for (size_t run = 0; run < own; ++run) held += runs[run].count;
  const int64_t at = of_part * length_ + held;
  const int64_t begin = std::clamp(begin_, at, at + runs[own].count);
  const int64_t end = std::clamp(end_, at, at + runs[own].count);
  const int64_t row = whole_row(of_part), matrix = row / shape_[shape_.size() - 2];
  return {begin - first_, end - begin, row, matrix * shape_.back() + runs[own].begin + (begin - at)};
}

int64_t Lines::whole_row(int64_t of_part) const {
  int64_t row = 0, stride = 1;
  for (size_t dim = shape_.size() - 1; dim-- > 0; stride *= shape_[dim]) {
    row += whole_place(dim, of_part % local_[dim]) * stride;
    of_part /= local_[dim];
  }
  return row;
}

int64_t Lines::whole_place(size_t dim, int64_t place) const {
  for (const Run& run : cut_.dims[dim]) {
    if (place < run.count) return run.begin + place;
    place -= run.count;
  }
  return place;
}

}  // namespace weft::optim

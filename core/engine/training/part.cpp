#include "training/part.hpp"

#include <algorithm>

namespace weft {

void for_each_box(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values,
                  const std::function<void(const checkpoint::Box& box, const at::Tensor& values)>& visit) {
  int64_t done = 0;
  for (const checkpoint::Box& local :
       checkpoint::boxes_of_range(checkpoint::whole(param.local), begin, count)) {
    const int64_t elements = local.numel();
    const at::Tensor held = values.narrow(0, done, elements).view(local.extent);
    done += elements;
    if (param.cut.dim < 0) {
      visit(local, held);
      continue;
    }
    const auto dim = static_cast<size_t>(param.cut.dim);
    const int64_t first = local.offset[dim], last = first + local.extent[dim];
    int64_t at = 0;  // of the segment in the part
    for (const Segment& segment : param.cut.segments) {
      const int64_t from = std::max(first, at), to = std::min(last, at + segment.count);
      if (from < to) {
        checkpoint::Box box = local;
        box.offset[dim] = segment.begin + from - at;
        box.extent[dim] = to - from;
        visit(box, held.narrow(param.cut.dim, from - first, to - from));
      }
      at += segment.count;
    }
  }
}

}  // namespace weft

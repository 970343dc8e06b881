#include "weft/kit/flat_part.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/torch/pools.hpp"

namespace weft::kit {

OwnRange own_range(int64_t part_begin, int64_t part_count, int64_t offset, int64_t count) {
  const int64_t begin = std::max(part_begin, offset);
  const int64_t end = std::min(part_begin + part_count, offset + count);
  return {begin - offset, begin - part_begin, end - begin};
}

at::Tensor own_part(const at::Tensor& whole, const Communicator& group) {
  const int64_t count = whole.numel() / group.size();
  return whole.narrow(0, group.rank() * count, count);
}

Work gather_parts(const at::Tensor& whole, const at::Tensor& own, const Communicator& group) {
  const at::NoGradGuard no_grad;
  resize_storage(whole, whole.numel());
  const at::Tensor place = own_part(whole, group);
  copy_values(place, own);
  return group.all_gather(whole, place);
}

}  // namespace weft::kit

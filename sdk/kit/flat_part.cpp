#include "weft/kit/flat_part.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>

namespace weft::plugin::kit {

OwnRange own_range(int64_t part_begin, int64_t part_count, int64_t offset, int64_t count) {
  const int64_t begin = std::max(part_begin, offset);
  const int64_t end = std::min(part_begin + part_count, offset + count);
  return {begin - offset, begin - part_begin, end - begin};
}

at::Tensor own_part(const at::Tensor& whole, const Communicator& group) {
  const int64_t count = whole.numel() / group.size();
  return whole.narrow(0, group.rank() * count, count);
}

Work gather_parts(const at::Tensor& whole, uint32_t home, const Communicator& group,
                  const std::function<void(const at::Tensor& place)>& fill) {
  const at::NoGradGuard no_grad;
  resize_storage(whole, whole.numel());
  const at::Tensor place = own_part(whole, group);
  const auto start = [&] {
    fill(place);
    return group.all_gather(whole, place);
  };
  return home == WEFT_POOL_ACCELERATOR ? start() : transfer_to_accelerator(start);
}

HomePart::HomePart(uint32_t home, int64_t count, at::ScalarType master, at::ScalarType working) {
  const bool rounds = home != WEFT_POOL_ACCELERATOR && master != working;
  values = allocate(rounds ? WEFT_POOL_HOST : home, count, master).zero_();
  if (rounds) rounded = allocate(home, count, working).zero_();
}

}  // namespace weft::plugin::kit

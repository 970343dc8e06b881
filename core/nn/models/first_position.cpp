#include "weft/nn/first_position.hpp"

#include <ATen/ops/constant_pad_nd.h>

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

bool has_all_positions() {
  const RunningUnit* const running = RunningUnit::find();
  if (running == nullptr || running->context().sequences().size() != 1) return false;
  const Sequence& sequence = running->context().sequences().front();
  return sequence.own.size() == 1 && sequence.own[0].begin == 0 &&
         sequence.own[0].count == sequence.positions;
}

at::Tensor first_position(const at::Tensor& x) {
  return x.narrow(1, 0, 1);
}

at::Tensor with_unread_positions(const at::Tensor& first, int64_t positions) {
  return at::constant_pad_nd(first, {0, 0, 0, positions - first.size(1)});
}

}  // namespace weft::nn

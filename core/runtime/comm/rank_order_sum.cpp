#include "comm/rank_order_sum.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace weft::comm {
namespace {

void apply(const at::Tensor& output, const at::Tensor& a, const at::Tensor& b, ReduceOp op) {
  at::Tensor out = output;
  switch (op) {
    case ReduceOp::kSum:
      at::add_out(out, a, b);
      break;
    case ReduceOp::kMax:
      at::maximum_out(out, a, b);
      break;
    case ReduceOp::kMin:
      at::minimum_out(out, a, b);
      break;
  }
}

}  // namespace

void reduce_in_rank_order(const at::Tensor& output, const std::vector<at::Tensor>& parts, int own,
                          ReduceOp op) {
  const at::NoGradGuard no_grad;
  const auto dtype = output.scalar_type();
  if (op == ReduceOp::kSum && (dtype == at::kHalf || dtype == at::kBFloat16)) {
    at::Tensor sum = parts[0].to(at::kFloat);
    for (size_t rank = 1; rank < parts.size(); ++rank) sum.add_(parts[rank]);
    output.copy_(sum);
    return;
  }
  // Keep the intermediate result in a received part, because `output` may be this rank's own part, which is
  // read later.
  const at::Tensor scratch = parts[own == 0 ? 1 : 0];
  at::Tensor result = parts[0];
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    const at::Tensor& target = rank + 1 == parts.size() ? output : scratch;
    apply(target, result, parts[rank], op);
    result = target;
  }
}

}  // namespace weft::comm

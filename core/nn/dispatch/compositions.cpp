#include "dispatch/compositions.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include <vector>

#include "formula/gated.hpp"

namespace weft {

namespace {

bool is_silu(int64_t kind) {
  return kind == static_cast<int64_t>(kernels::Gate::kSilu);
}
at::Tensor activated(const at::Tensor& gate, int64_t kind) {
  return is_silu(kind) ? at::silu(gate) : at::gelu(gate, "tanh");
}

}  // namespace

at::Tensor gated_by_operations(const at::Tensor& gate, const at::Tensor& up, int64_t kind) {
  return activated(gate, kind) * up;
}

std::tuple<at::Tensor, at::Tensor> gated_backward_by_operations(const at::Tensor& dy, const at::Tensor& gate,
                                                                const at::Tensor& up, int64_t kind) {
  const at::Tensor of_gate = dy * up;
  return {is_silu(kind) ? at::silu_backward(of_gate, gate) : at::gelu_backward(of_gate, gate, "tanh"),
          dy * activated(gate, kind)};
}

at::Tensor rotate_by_operations(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                                bool back) {
  const int64_t half = cosine.size(-1), still = x.size(-1) - 2 * half;
  const at::Tensor first = x.narrow(-1, 0, half), second = x.narrow(-1, half, half);
  const at::Tensor c = cosine.unsqueeze(2), s = back ? -sine.unsqueeze(2) : sine.unsqueeze(2);
  std::vector<at::Tensor> parts = {first * c - second * s, second * c + first * s};
  if (still > 0) parts.push_back(x.narrow(-1, 2 * half, still));
  return at::cat(parts, -1);
}

void merge_by_operations(at::Tensor out, at::Tensor log_sum_exp, const at::Tensor& part,
                         const at::Tensor& part_log_sum_exp) {
  const at::Tensor all = at::logaddexp(log_sum_exp, part_log_sum_exp);
  const auto weight = [&](const at::Tensor& one) { return one.sub(all).exp_().unsqueeze(-1); };
  out.mul_(weight(log_sum_exp)).add_(part.mul(weight(part_log_sum_exp)));
  log_sum_exp.copy_(all);
}

}  // namespace weft

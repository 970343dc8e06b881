#include "dispatch/compositions.hpp"

#include <ATen/ops/logaddexp.h>

namespace weft {

void merge_by_operations(at::Tensor out, at::Tensor log_sum_exp, const at::Tensor& part,
                         const at::Tensor& part_log_sum_exp) {
  const at::Tensor all = at::logaddexp(log_sum_exp, part_log_sum_exp);
  const auto weight = [&](const at::Tensor& one) { return one.sub(all).exp_().unsqueeze(-1); };
  out.mul_(weight(log_sum_exp)).add_(part.mul(weight(part_log_sum_exp)));
  log_sum_exp.copy_(all);
}

}  // namespace weft

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "cuda/gradient_norm.hpp"
#include "cuda/update_rules.hpp"
#include "launch.hpp"
#include "operators.hpp"
#include "summed_ranges.hpp"
#include "weft/device_operators.hpp"

namespace weft::cuda {

namespace {

namespace gpu = kernels::cuda;
using gpu::Chunk;

// For types and norms without a kernel.
at::Tensor norm_by_operations(at::TensorList gradients, double p) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.numel() == 0) continue;
    const at::Tensor sizes = gradient.to(at::kDouble).abs();
    parts.push_back(std::isinf(p) ? sizes.max() : sizes.pow(p).sum());
  }
  if (parts.empty()) return at::zeros({}, gradients.front().options().dtype(at::kDouble));
  const at::Tensor all = at::stack(parts), total = std::isinf(p) ? all.max() : all.sum();
  return total.masked_fill(total.isfinite().logical_not(), std::numeric_limits<double>::infinity());
}

at::Tensor norm_part(at::TensorList gradients, double p) {
  const c10::DeviceGuard guard(gradients.front().device());
  const auto is_double = [](const at::Tensor& gradient) { return gradient.scalar_type() == at::kDouble; };
  if ((p != 1 && p != 2 && !std::isinf(p)) || std::any_of(gradients.begin(), gradients.end(), is_double))
    return norm_by_operations(gradients, p);
  const gpu::NormType type = p == 1   ? gpu::NormType::kOne
                             : p == 2 ? gpu::NormType::kTwo
                                      : gpu::NormType::kInfinity;
  struct OfType {
    at::ScalarType type;
    std::vector<const void*> addresses = {};
    std::vector<int64_t> lengths = {};
    size_t ranges = 0, chunks = 0;
    int64_t num_chunks = 0;
  };
  std::array<OfType, 3> groups = {OfType{at::kFloat}, OfType{at::kBFloat16}, OfType{at::kHalf}};
  for (const at::Tensor& gradient : gradients)
    for (OfType& group : groups)
      if (group.type == gradient.scalar_type()) {
        group.addresses.push_back(gradient.const_data_ptr());
        group.lengths.push_back(gradient.numel());
      }
  Tables tables;
  int64_t num_parts = 0;
  for (OfType& group : groups) {
    const std::vector<Chunk> chunks = gpu::chunks_of(group.lengths);
    group.ranges = tables.add(group.addresses);
    group.chunks = tables.add(chunks);
    num_parts += group.num_chunks = static_cast<int64_t>(chunks.size());
  }
  tables.copy_to(gradients.front().device());
  const at::TensorOptions doubles = gradients.front().options().dtype(at::kDouble);
  const at::Tensor parts = at::empty({num_parts}, doubles), total = at::empty({}, doubles);
  double* part = parts.mutable_data_ptr<double>();
  for (const OfType& group : groups) {
    with_kernel_type("norm_part", group.type, [&]<class T>(T) {
      gpu::norm_parts<T>(type, tables.at<const T*>(group.ranges), tables.at<Chunk>(group.chunks),
                         group.num_chunks, part, stream());
    });
    part += group.num_chunks;
  }
  gpu::norm_total(type, parts.const_data_ptr<double>(), num_parts, total.mutable_data_ptr<double>(),
                  stream());
  return total;
}

at::Tensor decide(const at::Tensor& norm_part, double p, double max_norm, double clip, double loss_scale,
                  bool skips) {
  const c10::DeviceGuard guard(norm_part.device());
  const at::Tensor decision = at::empty({3}, norm_part.options());
  gpu::decide_step({norm_part.const_data_ptr<double>(), p, max_norm, clip, loss_scale, skips,
                    static_cast<kernels::Decision*>(decision.mutable_data_ptr())},
                   stream());
  return decision;
}
static_assert(sizeof(kernels::Decision) == 3 * sizeof(double));

using Decided = std::optional<at::Tensor>;  // of operators::Decide, or none

const kernels::Decision* address_of(const Decided& decision) {
  return decision ? static_cast<const kernels::Decision*>(decision->const_data_ptr()) : nullptr;
}

// For ATen's kernels for fp64, as in the engine: scales the gradients, and returns what makes the kernels
// leave everything as it is if it is 1.
std::optional<at::Tensor> scale(at::TensorList gradients, double factor, const Decided& decision) {
  if (decision) {
    at::_foreach_mul_(gradients, (*decision)[1]);
    return (*decision)[2].to(at::kFloat);
  }
  if (factor != 1) at::_foreach_mul_(gradients, factor);
  return std::nullopt;
}

template <class C>
C* copy_of(at::TensorList working, size_t i) {
  return working.empty() ? nullptr : working[i].data_ptr<C>();
}

void fill(at::TensorList working, at::TensorList values) {
  if (!working.empty()) at::_foreach_copy_(working, values);
}

template <class G, class C>
constexpr bool kWritesCopies = std::is_same_v<G, float> ? !std::is_same_v<C, float> : std::is_same_v<G, C>;

// Calls launch(copies, G(), C()) with the types of gradients and working copies. The kernels write copies of
// the type of half-precision gradients, and of either half precision beside gradients in fp32; others are
// filled afterwards.
template <class Launch>
void with_update(const char* name, at::TensorList values, at::TensorList gradients, at::TensorList working,
                 const Launch& launch) {
  const at::ScalarType of_gradients = gradients.front().scalar_type();
  const at::ScalarType without = of_gradients == at::kFloat ? at::kBFloat16 : of_gradients;
  const bool writes =
      !working.empty() && (of_gradients == at::kFloat || of_gradients == working.front().scalar_type());
  with_kernel_type(name, of_gradients, [&]<class G>(G) {
    with_kernel_type(name, writes ? working.front().scalar_type() : without, [&]<class C>(C) {
      if constexpr (kWritesCopies<G, C>) launch(writes ? working : at::TensorList(), G(), C());
    });
  });
  if (!writes) fill(working, values);
}

// Launches `rule(table)` for a table of ranges in fp32.
template <class Range, class Rule>
void launch_rule(at::TensorList values, const std::vector<Range>& ranges, const Rule& rule) {
  Tables tables;
  const std::vector<Chunk> chunks = gpu::chunks_of(lengths_of(values));
  const size_t of_ranges = tables.add(ranges), of_chunks = tables.add(chunks);
  tables.copy_to(values.front().device());
  rule(gpu::RangeTable<Range>{tables.at<Range>(of_ranges), tables.at<Chunk>(of_chunks),
                              static_cast<int64_t>(chunks.size())});
}

void adam(at::TensorList values, at::TensorList gradients, at::TensorList averages, at::TensorList squares,
          at::TensorList working, double step, double lr, double beta1, double beta2, double eps,
          double weight_decay, bool decoupled, double factor, const Decided& decision) {
  const c10::DeviceGuard guard(values.front().device());
  if (values.front().scalar_type() == at::kDouble) {
    const std::vector<at::Tensor> counts(values.size(),
                                         at::full({}, step, values.front().options().dtype(at::kFloat)));
    const auto skips = scale(gradients, factor, decision);
    if (decoupled)
      at::_fused_adamw_(values, gradients, averages, squares, {}, counts, lr, beta1, beta2, weight_decay, eps,
                        /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, skips);
    else
      at::_fused_adam_(values, gradients, averages, squares, {}, counts, lr, beta1, beta2, weight_decay, eps,
                       /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/std::nullopt, skips);
    return fill(working, values);
  }
  const bool corrects = std::isfinite(step);
  const kernels::StepNumbers numbers =
      kernels::step_numbers({lr, beta1, beta2, corrects}, corrects ? static_cast<int64_t>(step) : 1);
  const auto launch = [&]<class G, class C>(at::TensorList copies, G, C) {
    std::vector<gpu::AdamRange<G, C>> ranges;
    for (size_t i = 0; i < values.size(); ++i)
      ranges.push_back({values[i].data_ptr<float>(), averages[i].data_ptr<float>(),
                        squares[i].data_ptr<float>(), gradients[i].const_data_ptr<G>(),
                        copy_of<C>(copies, i)});
    launch_rule(values, ranges, [&](const auto& table) {
      gpu::adam<G, C>(table, kernels::adam_factors(lr, beta1, beta2, eps, weight_decay, decoupled), numbers,
                      {factor, address_of(decision)}, stream());
    });
  };
  with_update("adam_", values, gradients, working, launch);
}

void sgd(at::TensorList values, at::TensorList gradients, at::TensorList momenta, at::TensorList working,
         double lr, double momentum, double dampening, double weight_decay, bool nesterov, bool first,
         double factor, const Decided& decision) {
  const c10::DeviceGuard guard(values.front().device());
  if (values.front().scalar_type() == at::kDouble) {
    const auto skips = scale(gradients, factor, decision);
    at::_fused_sgd_(values, gradients, momenta, weight_decay, momentum, lr, dampening, nesterov,
                    /*maximize=*/false, first, /*grad_scale=*/std::nullopt, skips);
    return fill(working, values);
  }
  kernels::StepNumbers numbers = kernels::step_numbers({lr, 0, 0, false}, 1);
  numbers.first = first ? 1 : 0;
  const kernels::SgdFactors factors = {static_cast<float>(momentum), static_cast<float>(1 - dampening),
                                       static_cast<float>(weight_decay), nesterov};
  const auto launch = [&]<class G, class C>(at::TensorList copies, G, C) {
    std::vector<gpu::SgdRange<G, C>> ranges;
    for (size_t i = 0; i < values.size(); ++i)
      ranges.push_back({values[i].data_ptr<float>(), momenta.empty() ? nullptr : momenta[i].data_ptr<float>(),
                        gradients[i].const_data_ptr<G>(), copy_of<C>(copies, i)});
    launch_rule(values, ranges, [&](const auto& table) {
      gpu::sgd<G, C>(table, factors, numbers, {factor, address_of(decision)}, stream());
    });
  };
  with_update("sgd_", values, gradients, working, launch);
}

// What the rules of range_rules.hpp take. Lists may be empty; `counted` has begin and count of each range.
struct RuleLists {
  at::TensorList values, gradients = {}, first = {}, second = {};
  at::ArrayRef<double> rates = {};
  at::IntArrayRef counted = {};
};

// Calls rule(table) with the table of ranges on the device.
template <class Rule>
void launch_ranges(const RuleLists& lists, const Rule& rule) {
  with_exact_type(lists.values.front(), [&]<class T>(T) {
    const auto address = [](at::TensorList list, size_t i) {
      return list.empty() ? nullptr : list[i].data_ptr<T>();
    };
    std::vector<gpu::RuleRange<T>> ranges;
    for (size_t i = 0; i < lists.values.size(); ++i) {
      const int64_t begin = lists.counted.empty() ? 0 : lists.counted[2 * i];
      const int64_t count = lists.counted.empty() ? lists.values[i].numel() : lists.counted[2 * i + 1];
      ranges.push_back({.value = address(lists.values, i),
                        .gradient = address(lists.gradients, i),
                        .first = address(lists.first, i),
                        .second = address(lists.second, i),
                        .rate = lists.rates.empty() ? 0 : lists.rates[i],
                        .counted_begin = begin,
                        .counted_end = begin + count});
    }
    launch_summed(lists.values, std::move(ranges), rule);
  });
}

// Returns (ranges, columns) in fp64, which `rule(table, parts, sums)` fills.
template <class Rule>
at::Tensor sums_of(const RuleLists& lists, at::IntArrayRef shape, int64_t columns, const Rule& rule) {
  const at::Tensor sums = empty_doubles(shape, lists.values.front());
  launch_ranges(lists, [&](const auto& table) {
    const at::Tensor parts = empty_doubles({table.num_chunks * columns}, sums);
    rule(table, parts.template mutable_data_ptr<double>(), sums.mutable_data_ptr<double>());
  });
  return sums;
}

at::Tensor sums_of_squares(at::TensorList ranges) {
  return sums_of({ranges}, {static_cast<int64_t>(ranges.size())}, 1,
                 [](const auto& table, double* parts, double* sums) {
                   gpu::sums_of_squares(table, parts, sums, stream());
                 });
}

void lion(at::TensorList values, at::TensorList gradients, at::TensorList momenta, double lr, double beta1,
          double beta2, double weight_decay, double factor, const Decided& decision) {
  launch_ranges({values, gradients, momenta}, [&](const auto& table) {
    gpu::lion(table, {lr, beta1, beta2, weight_decay, factor}, address_of(decision), stream());
  });
}

void lars(at::TensorList values, at::TensorList gradients, at::TensorList momenta, at::ArrayRef<double> rates,
          double momentum, double weight_decay, double factor) {
  launch_ranges({values, gradients, momenta, {}, rates}, [&](const auto& table) {
    gpu::lars(table, {0, momentum, weight_decay, factor}, stream());
  });
}

at::Tensor lamb_moments(at::TensorList values, at::TensorList gradients, at::TensorList averages,
                        at::TensorList squares, at::IntArrayRef counted, double beta1, double beta2,
                        double eps, double weight_decay, double correction1, double correction2,
                        double factor) {
  return sums_of(
      {values, gradients, averages, squares, {}, counted}, {static_cast<int64_t>(values.size()), 2}, 2,
      [&](const auto& table, double* parts, double* sums) {
        gpu::lamb_moments(table, {beta1, beta2, eps, weight_decay, correction1, correction2, factor}, parts,
                          sums, stream());
      });
}

void lamb_step(at::TensorList values, at::TensorList averages, at::TensorList squares,
               at::ArrayRef<double> rates, double eps, double weight_decay, double correction1,
               double correction2) {
  launch_ranges({values, {}, averages, squares, rates}, [&](const auto& table) {
    gpu::lamb_step(table, {0, 0, eps, weight_decay, correction1, correction2, 1}, stream());
  });
}

}  // namespace

void implement_updates(torch::Library& library) {
  using namespace operators;
  implement<NormPart>(library, norm_part);
  implement<Decide>(library, decide);
  implement<SumsOfSquares>(library, sums_of_squares);
  implement<Adam>(library, adam);
  implement<Sgd>(library, sgd);
  implement<Lion>(library, lion);
  implement<Lars>(library, lars);
  implement<LambMoments>(library, lamb_moments);
  implement<LambStep>(library, lamb_step);
}

}  // namespace weft::cuda

#include "contract/tensors.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

// The least to which a tolerance is relative. Some gradients are zero in exact arithmetic, such as that of
// the bias of the key projection, and consist of rounding errors in the reference.
constexpr double kSmallest = 1e-4;

double largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : device::value_of<double>(tensor.abs().max());
}

double product(const at::Tensor& one, const at::Tensor& other) {
  return device::value_of<double>((one * other).sum());
}

// Describes wrong values by what they have of the right ones: a gradient that is half of it was averaged.
std::string describe(const std::string& name, const at::Tensor& found, const at::Tensor& expected) {
  const double square = product(expected, expected), error = largest(found - expected);
  if (!std::isfinite(error)) return fmt::format("{}: not all elements are finite", name);
  if (square == 0) return fmt::format("{}: must be zero, but is up to {:.3g}", name, error);
  return fmt::format(
      "{}: wrong by up to {:.3g} where the largest element is {:.3g}; about {:.2f} of the right one", name,
      error, largest(expected), product(found, expected) / square);
}

}  // namespace

Tensors published(Bindings& bindings, at::Tensor Shard::*part) {
  Tensors whole;
  for (const auto& param : bindings.params()) whole[param->name] = at::zeros(param->shape, at::kDouble);
  const double scale = part == &Shard::gradient ? bindings.loss_scale() : 1;
  for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) {
    if (!(shard.*part).defined()) continue;
    const at::Tensor& all = whole.at(shard.param->name);
    for_each_box(shard.param->cut, shard.begin, shard.count, shard.*part,
                 [&](const Box& box, const at::Tensor& values) {
                   view_of(all, Box::whole(shard.param->shape), box).copy_(values.to(at::kDouble) / scale);
                 });
  }
  return whole;
}

std::string difference(const std::string& name, const at::Tensor& found, const at::Tensor& expected,
                       double tolerance) {
  if (found.sizes() != expected.sizes())
    return fmt::format("{}: has the shape [{}], must have [{}]", name, fmt::join(found.sizes(), ", "),
                       fmt::join(expected.sizes(), ", "));
  const double error = largest(found - expected);
  return error <= tolerance * std::max(largest(expected), kSmallest) ? "" : describe(name, found, expected);
}

std::string difference(const Tensors& found, const Tensors& expected, double tolerance) {
  for (const auto& [name, tensor] : expected) {
    const auto own = found.find(name);
    if (own == found.end()) return fmt::format("{}: there is none", name);
    std::string problem = difference(name, own->second, tensor, tolerance);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string difference(const std::string& name, double found, double expected, double tolerance) {
  if (std::abs(found - expected) <= tolerance * std::abs(expected)) return "";
  return fmt::format("{} is {:.9g}, must be {:.9g}", name, found, expected);
}

std::string published_difference(Bindings& bindings, at::Tensor Shard::*part, const Tensors& expected,
                                 double tolerance) {
  const bool of_gradients = part == &Shard::gradient;
  std::string problem;
  for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) {
    if (of_gradients && shard.param->frozen) continue;
    const at::Tensor& whole = expected.at(shard.param->name);
    const at::Tensor own = (shard.*part).defined() ? device::on_host(shard.*part).to(at::kDouble)
                                                   : at::zeros({shard.count}, at::kDouble);
    const double scale = of_gradients ? bindings.loss_scale() : 1;
    // The tolerance is one of the whole tensor, of which this rank may hold small elements alone.
    const double allowed = tolerance * std::max(largest(whole), kSmallest);
    for_each_box(shard.param->cut, shard.begin, shard.count, own / scale,
                 [&](const Box& box, const at::Tensor& values) {
                   const at::Tensor right = view_of(whole, Box::whole(shard.param->shape), box);
                   const bool is_right = largest(values - right) <= allowed;
                   if (is_right || !problem.empty()) return;
                   problem = of_gradients && !(shard.*part).defined()
                                 ? fmt::format("{}: no gradient is published", shard.param->name)
                                 : describe(shard.param->name, values, right);
                 });
  }
  return problem;
}

Batch own_part(const Batch& batch, int64_t rank, int64_t ranks) {
  const int64_t samples = batch.samples();
  const int64_t begin = samples * rank / ranks, end = samples * (rank + 1) / ranks;
  Batch part;
  for (const auto& [name, tensor] : batch)
    part.set(name, begin == end ? tensor.narrow(0, 0, 1) : tensor.narrow(0, begin, end - begin));
  part.empty = begin == end;
  return part;
}

}  // namespace weft::contract

#include "weft/nn/masks.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::nn {

namespace {

double lowest(at::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "attention mask", [] {
    return static_cast<double>(std::numeric_limits<scalar_t>::lowest());
  });
}

}  // namespace

at::Tensor additive_mask(const at::Tensor& allowed, at::ScalarType dtype) {
  return at::zeros(allowed.sizes(), allowed.options().dtype(dtype))
      .masked_fill_(allowed.logical_not(), lowest(dtype));
}

at::Tensor padding_mask(const BatchFields& batch, std::string_view name, at::IntArrayRef ids,
                        at::ScalarType dtype) {
  if (!batch.has(name)) return {};
  batch.require_shape(name, {ids.vec(), {c10::multiply_integers(ids) / ids.back(), ids.back()}});
  const at::Tensor& mask = batch.batch().at(name);
  const at::Tensor allowed = mask.ne(0);
  if (mask.scalar_type() != at::kBool && !device::value_of<bool>(mask.eq(allowed).all())) {
    batch.refuse(name, "it has values beside 0 (padding) and 1 (attend)");
  }
  if (device::value_of<bool>(allowed.all())) return {};
  return additive_mask(allowed.reshape({-1, 1, 1, ids.back()}), dtype);
}

at::Tensor packing_mask(const at::Tensor& positions, int64_t rows, at::ScalarType dtype) {
  const at::Tensor sequence = at::diff(positions, 1, -1, positions.slice(-1, 0, 1) - 1).ne(1).cumsum(-1);
  if (device::value_of<bool>(sequence.select(-1, -1).eq(0).all())) return {};
  const at::Tensor allowed = sequence.unsqueeze(-1).eq(sequence.unsqueeze(-2)).unsqueeze(1);
  return additive_mask(allowed.expand({rows, 1, -1, -1}), dtype);
}

}  // namespace weft::nn

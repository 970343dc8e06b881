#include "weft/nn/masks.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
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

at::Tensor document_begins(const at::Tensor& starts, int64_t rows) {
  const at::Tensor positions = at::arange(starts.size(-1), starts.options().dtype(at::kLong));
  const at::Tensor begins = std::get<0>(at::cummax(at::mul(positions, starts), -1));
  if (device::value_of<bool>(begins.select(-1, -1).eq(0).all())) return {};
  return device::on_host(begins).expand({rows, -1}).unsqueeze(1).unsqueeze(1).contiguous();
}

bool are_document_begins(const at::Tensor& mask) {
  return mask.defined() && mask.scalar_type() == at::kLong && mask.dim() == 4;
}

at::Tensor positions_in_documents(const at::Tensor& begins) {
  return at::sub(at::arange(begins.size(-1), begins.options()), begins.flatten(1));
}

at::Tensor document_mask(const at::Tensor& begins) {
  return begins.eq(begins.transpose(-1, -2));
}

}  // namespace weft::nn

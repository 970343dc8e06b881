#include "cpu/product.hpp"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "cpu/few_rows.hpp"
#include "cpu/transpose.hpp"

namespace weft::kernels {

namespace {

// Below this a call of oneDNN costs more to set up than it saves.
constexpr int64_t kSmallestProduct = int64_t{1} << 21;

// oneDNN multiplies by a matrix whose columns are contiguous 4 to 10 % faster than by one with contiguous
// rows (measured on Zen 4). With so many rows of the other operand a transpose costs less.
constexpr int64_t kRowsToTransposeFor = 768;

// torch.ops.mkldnn._linear_pointwise: x wᵀ + b with oneDNN's inner product in fp32. It has no C++
// declaration.
using LinearPointwise = at::Tensor(const at::Tensor& x, const at::Tensor& w,
                                   const std::optional<at::Tensor>& b, std::string_view fused,
                                   c10::List<std::optional<at::Scalar>> scalars,
                                   std::optional<std::string_view> algorithm);
// torch.ops.mkldnn._linear_pointwise.binary: x wᵀ + b, and then `fused` with `other`.
using LinearWithOther = at::Tensor(const at::Tensor& x, const at::Tensor& other, const at::Tensor& w,
                                   const std::optional<at::Tensor>& b, std::string_view fused);

struct Operators {
  c10::TypedOperatorHandle<LinearPointwise> linear;
  c10::TypedOperatorHandle<LinearWithOther> with_other;
};

std::optional<Operators> find_operators() {
  c10::Dispatcher& all = c10::Dispatcher::singleton();
  const auto linear = all.findSchema({"mkldnn::_linear_pointwise", ""}),
             with_other = all.findSchema({"mkldnn::_linear_pointwise", "binary"});
  if (!linear || !with_other || !at::hasMKLDNN()) return std::nullopt;
  return Operators{linear->typed<LinearPointwise>(), with_other->typed<LinearWithOther>()};
}

const std::optional<Operators>& onednn() {
  static const std::optional<Operators> found = find_operators();
  return found;
}

// a b^T + bias, where `a` has few rows and the elements of b lie close together along one dimension.
at::Tensor product_of_few_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const at::Tensor x = a.contiguous(), added = bias.defined() ? bias.contiguous() : bias;
  at::Tensor y = at::empty({a.size(0), b.size(0)}, a.options());
  few_rows_product(a.size(0), a.size(1), b.size(0), x.const_data_ptr<float>(), b.const_data_ptr<float>(),
                   b.stride(0), b.stride(1), added.defined() ? added.const_data_ptr<float>() : nullptr,
                   y.mutable_data_ptr<float>());
  return y;
}

// Of shapes and types that do not fit together libtorch tells the error.
bool takes_few_rows(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const auto is_float = [](const at::Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; };
  return a.size(0) <= kMostFewRows && is_float(b) && a.size(1) == b.size(1) &&
         (b.stride(0) == 1 || b.stride(1) == 1) &&
         (!bias.defined() || (is_float(bias) && bias.dim() == 1 && bias.size(0) == b.size(0)));
}

bool is_large(const at::Tensor& a, const at::Tensor& b) {
  return a.size(0) * a.size(1) * b.size(0) >= kSmallestProduct;
}

// b, transposed if that makes a product with `a` faster. The transpose is no larger than the result.
at::Tensor by_columns(const at::Tensor& a, const at::Tensor& b) {
  return a.size(0) >= std::max(kRowsToTransposeFor, a.size(1)) ? packed(b.t()).t() : b;
}

}  // namespace

bool prefers_onednn() {
#ifdef __x86_64__
  static const bool prefers =
      !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx2") && onednn().has_value();
  return prefers;
#else
  return false;
#endif
}

bool has_fast_product(const at::Tensor& a) {
  return a.is_cpu() && a.scalar_type() == at::kFloat && prefers_onednn();
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  if (has_fast_product(a) && takes_few_rows(a, b, bias)) return product_of_few_rows(a, b, bias);
  if (is_large(a, b) && has_fast_product(a))
    return onednn()->linear.call(packed(a), by_columns(a, b),
                                 bias.defined() ? std::optional(bias) : std::nullopt, "none",
                                 c10::List<std::optional<at::Scalar>>(), "");
  return bias.defined() ? at::addmm(bias, a, b.t()) : at::mm(a, b.t());
}

at::Tensor product_added_to(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b) {
  if (is_large(a, b) && has_fast_product(a))
    return onednn()->with_other.call(packed(a), added, by_columns(a, b), std::nullopt, "add");
  return at::addmm(added, a, b.t());
}

// oneDNN wants rows of its first operand, so one of the two is transposed first: the cheaper, where the
// second one costs the transpose of the result as well.
at::Tensor product_over_rows(const at::Tensor& a, const at::Tensor& b) {
  if (!has_fast_product(a)) return at::mm(a.t(), b);
  if (a.numel() <= b.numel() + a.size(1) * b.size(1)) return product(a.t(), b.t());
  return packed(product(b.t(), a.t()).t());
}

}  // namespace weft::kernels

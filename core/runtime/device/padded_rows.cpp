#include "device/padded_rows.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Storage.h>

#include <memory>
#include <vector>

#include "device/tensors.hpp"

namespace weft::device {

namespace {

constexpr int64_t kMultiple = 64;  // elements: 128 bytes, a line of the cache, in half precision
constexpr int64_t kMany = 1024;    // columns: fewer are not worth the copies of the other factor

int64_t padded(int64_t count) {
  return (count + kMultiple - 1) / kMultiple * kMultiple;
}

// The deleter of the memory of empty_with_padding(), by which with_padding() knows it.
void release(void* memory) {
  delete static_cast<c10::Storage*>(memory);
}

bool has_padding(const at::Tensor& x) {
  const c10::Storage& storage = x.storage();
  return storage.data_ptr().get_deleter() == &release && x.storage_offset() == 0 && x.dim() == 2 &&
         x.stride(1) == 1 && x.stride(0) == padded(x.size(1)) &&
         static_cast<int64_t>(storage.nbytes()) == x.size(0) * x.stride(0) * x.element_size();
}

}  // namespace

bool gains_by_padding(const at::Tensor& x, int64_t columns) {
  return !is_on_host(x) && !x.is_meta() && at::isReducedFloatingType(x.scalar_type()) && columns >= kMany &&
         columns % kMultiple != 0;
}

at::Tensor empty_with_padding(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  const int64_t stride = padded(columns);
  auto memory = std::make_unique<c10::Storage>(at::empty({rows, stride}, options).storage());
  void* const data = memory->mutable_data();
  // Not a view for autograd: the function that returns the result owns its memory.
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor whole = at::for_blob(data, {rows, stride})
                               .context(memory.release(), &release)
                               .options(options)
                               .target_device(options.device())
                               .make_tensor();
  return whole.as_strided({rows, columns}, {stride, 1});
}

at::Tensor with_padding(const at::Tensor& x) {
  if (has_padding(x)) return x.as_strided({x.size(0), x.stride(0)}, {x.stride(0), 1});
  return at::constant_pad_nd(x, {0, padded(x.size(1)) - x.size(1)});
}

at::Tensor with_rows_of_zeros(const at::Tensor& x) {
  std::vector<int64_t> pads(static_cast<size_t>(2 * x.dim()), 0);
  pads.back() = padded(x.size(0)) - x.size(0);
  return at::constant_pad_nd(x, pads);
}

}  // namespace weft::device

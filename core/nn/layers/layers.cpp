#include "weft/nn/layers.hpp"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::nn {

namespace {

at::Tensor meta(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

class PlainEmbedding final : public EmbeddingOperation {
 public:
  at::Tensor forward(const Embedding& layer, const at::Tensor& ids) const override {
    const at::Tensor& weight = layer.weight;
    check_ids(ids, weight.size(0), "embedding");
    return at::embedding(weight, ids, layer.padding.value_or(-1));
  }
};

}  // namespace

Embedding::Embedding(int64_t count, int64_t channels, at::ScalarType dtype, std::optional<int64_t> padding)
    : padding(padding) {
  static const auto plain = std::make_shared<PlainEmbedding>();
  operation = plain;
  weight = register_parameter("weight", meta({count, channels}, dtype));
}

at::Tensor Embedding::operator()(const at::Tensor& ids) const {
  return operation->forward(*this, ids);
}

void check_ids(const at::Tensor& ids, int64_t count, std::string_view what, std::optional<int64_t> ignored) {
  if (ids.scalar_type() != at::kLong) {
    fail(WEFT_INVALID_ARGUMENT, "{}: ids are {}, must be int64", what, c10::toString(ids.scalar_type()));
  }
  // On an accelerator this would synchronize; its kernels check ids themselves.
  if (!device::is_on_host(ids)) return;
  const at::Tensor contiguous = ids.contiguous();
  const int64_t* first = contiguous.const_data_ptr<int64_t>();
  const int64_t* last = first + contiguous.numel();
  const int64_t* wrong = std::find_if(
      first, last, [&](int64_t id) { return (id < 0 || id >= count) && (!ignored || id != *ignored); });
  if (wrong == last) return;
  std::vector<int64_t> position(ids.dim());
  int64_t flat = wrong - first;
  for (int64_t dim = ids.dim() - 1; dim >= 0; flat /= ids.size(dim), --dim)
    position[dim] = flat % ids.size(dim);
  fail(WEFT_INVALID_ARGUMENT, "{}: the value {} at [{}] is out of range, must be 0 to {}{}", what, *wrong,
       fmt::join(position, ", "), count - 1, ignored ? fmt::format(", or {} to be ignored", *ignored) : "");
}

}  // namespace weft::nn

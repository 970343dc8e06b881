#include "weft/nn/inputs.hpp"

#include <ATen/ops/zeros.h>

namespace weft::nn {

namespace {

class DenseInputs final : public Inputs {
 public:
  explicit DenseInputs(DenseField field) : field_(std::move(field)) {}

  std::vector<std::string> fields() const override { return {field_.name}; }
  std::vector<std::string> consumed() const override { return {field_.name}; }
  void read(const BatchFields& batch, State& state) const override {
    const at::Tensor values = batch.reals(field_.name);
    batch.require_shape(field_.name, {with_samples(values.dim() == 0 ? 0 : values.size(0))});
    if (values.size(0) == 0) batch.refuse(field_.name, "it has no samples");
    state.set(field_.name, values.to(field_.dtype));
  }
  std::vector<int64_t> shape(const Batch& batch) const override {
    return {batch.at(field_.name).size(0), field_.positions};
  }
  void add_example(int64_t samples, int64_t, Batch& batch) const override {
    batch.set(field_.name, at::zeros(with_samples(samples), field_.dtype));
  }

 private:
  std::vector<int64_t> with_samples(int64_t samples) const {
    std::vector<int64_t> shape = {samples};
    shape.insert(shape.end(), field_.sample_shape.begin(), field_.sample_shape.end());
    return shape;
  }

  const DenseField field_;
};

}  // namespace

std::unique_ptr<Inputs> make_dense_inputs(DenseField field) {
  return std::make_unique<DenseInputs>(std::move(field));
}

}  // namespace weft::nn

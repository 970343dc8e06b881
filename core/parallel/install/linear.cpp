#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

using nn::RegionInput;
using nn::ResidualStream;

// A replicated linear layer of the residual stream.
class StreamLinear final : public nn::LinearOperation {
 public:
  explicit StreamLinear(std::shared_ptr<ResidualStream> stream) : stream_(std::move(stream)) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    return nn::product(layer, x, stream_->parameter(layer.weight),
                       layer.bias.defined() ? stream_->parameter(layer.bias) : layer.bias);
  }

 private:
  std::shared_ptr<ResidualStream> stream_;
};

// A column-parallel linear layer: every rank computes its output features from the whole input. `input` is
// null if the input has already entered the region. If there are fewer heads than ranks, several ranks hold
// the same features.
class ColumnLinear final : public nn::LinearOperation {
 public:
  ColumnLinear(std::shared_ptr<RegionInput> input, Site::Summed weight, Site::Summed bias)
      : input_(std::move(input)), weight_(std::move(weight)), bias_(std::move(bias)) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor weight = weight_(layer.weight);
    const at::Tensor bias = layer.bias.defined() ? bias_(layer.bias) : layer.bias;
    return input_ ? input_->linear(layer, x, weight, bias) : nn::product(layer, x, weight, bias);
  }

 private:
  const std::shared_ptr<RegionInput> input_;
  const Site::Summed weight_, bias_;
};

// A row-parallel linear layer: the ranks' products of their input features are summed, then the bias is
// added.
class RowLinear final : public nn::LinearOperation {
 public:
  explicit RowLinear(std::shared_ptr<ResidualStream> stream) : stream_(std::move(stream)) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor sum = stream_->leave_product(layer, x);
    return layer.bias.defined() ? sum.add_(stream_->parameter(layer.bias)) : sum;
  }

 private:
  std::shared_ptr<ResidualStream> stream_;
};

std::shared_ptr<RegionInput> input_of(Site& site, const std::string& input) {
  if (input == "entered") return nullptr;
  return input == "own" ? site.stream()->input(1) : site.shared_input();
}

}  // namespace

void install_linear(Site& site, const plan::Attributes&) {
  if (!site.splits_layers()) return;
  site.set(site.layer<nn::Linear>().operation, std::make_shared<StreamLinear>(site.stream()));
}

void install_linear_column(Site& site, const plan::Attributes& attributes) {
  if (!site.splits_layers()) return;
  auto& layer = site.layer<nn::Linear>();
  site.set(layer.operation, std::make_shared<ColumnLinear>(
                                input_of(site, attributes.text("input")), site.summed_gradient("weight"),
                                layer.bias.defined() ? site.summed_gradient("bias") : nullptr));
}

void install_linear_row(Site& site, const plan::Attributes&) {
  if (!site.splits_layers()) return;
  site.set(site.layer<nn::Linear>().operation, std::make_shared<RowLinear>(site.stream()));
}

}  // namespace weft::operations

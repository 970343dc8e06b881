// Adapters of linear layers, y = (x W + b) * (1 + s) with a factor s for each output feature, once right and
// else with one mistake, and operations without parameters.
#include <weft/define_operations.hpp>
#include <weft/nn/addition.hpp>
#include <weft/nn/site.hpp>

#include <ATen/ops/empty.h>

namespace {

namespace nn = weft::nn;
using weft::plan::Attributes;
using weft::plan::Operation;
using weft::plan::PlannedNode;
using weft::plan::PlannedParameter;

class Factors final : public nn::Addition {
 public:
  Factors(int64_t out, at::ScalarType dtype) {
    weight =
        register_parameter("weight", at::empty({out}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  nn::Initial initial(std::string_view) const override { return nn::Initial::constant(0); }

  at::Tensor weight;
};

class ScaledProduct final : public nn::LinearProduct {
 public:
  ScaledProduct(std::shared_ptr<Factors> factors, bool stops) : factors_(std::move(factors)), stops_(stops) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    const at::Tensor y = nn::linear(x, weight, bias, layer.layout);
    return (stops_ ? y.detach() : y) * (factors_->weight + 1);
  }

 private:
  const std::shared_ptr<Factors> factors_;
  const bool stops_;
};

template <bool kStops>
void add(nn::Layer& layer, const Attributes&) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const int64_t out = linear.weight.size(linear.layout == nn::Linear::Layout::kOutIn ? 0 : 1);
  const auto factors = std::make_shared<Factors>(out, linear.weight.scalar_type());
  linear.register_module("factors", factors);
  linear.product = std::make_shared<ScaledProduct>(factors, kStops);
}

// With kFirst every rank has the factors of the first one.
template <bool kFirst>
void cut(PlannedNode& node, const weft::plan::CutRequest& request, std::vector<std::string>& problems) {
  if (request.sizes.sequence_mode != "whole" && request.sizes.sequence == 1) {
    problems.push_back("needs the layer's product");
    return;
  }
  if (request.layer == nullptr) return;
  const size_t out = node.kind == "Conv1D" ? 1 : 0;
  for (const PlannedParameter& weight : request.layer->params) {
    if (weight.name != "weight" || weight.cuts.empty()) continue;
    const std::vector<weft::Run> whole = {{0, weight.shape[1 - out]}};
    if (weight.cuts[0].dims[1 - out] != whole) {
      problems.push_back("is not for a layer that is split along its input");
      return;
    }
    for (PlannedParameter& factors : node.params) {
      if (factors.name != "factors.weight") continue;
      factors.partition_axes = weight.partition_axes;
      for (const weft::Cut& part : weight.cuts)
        factors.cuts.push_back(
            weft::Cut::along(factors.shape, 0, (kFirst ? weight.cuts[0] : part).dims[out]));
    }
  }
}

void install_nothing(weft::Site&, const Attributes&) {}

std::string configuration(const Attributes&, const std::vector<PlannedNode>&) {
  return "{}";
}

Operation adapter(const char* id, Operation::Add add, Operation::Cut cut) {
  return {.id = id,
          .documentation = "multiplies each output feature by a trained factor",
          .kinds = {"Conv1D"},
          .attributes = {},
          .keeps = "the factors of its output features",
          .cut = cut,
          .install = install_nothing,
          .add = add,
          .configuration = configuration};
}

class DoubledProduct final : public nn::LinearProduct {
 public:
  explicit DoubledProduct(bool stops) : stops_(stops) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    const at::Tensor y = nn::linear(x, weight, bias, layer.layout);
    return y + (stops_ ? y.detach() : y);
  }

 private:
  const bool stops_;
};

template <bool kStops>
void install_product(weft::Site& site, const Attributes&) {
  site.set(site.layer<nn::Linear>().product, std::make_shared<DoubledProduct>(kStops));
}

const Operation* find_operation(std::string_view id) {
  static const std::vector<Operation> kOperations = {
      adapter("test.right_factors/1", add<false>, cut<false>),
      adapter("test.stopped_factors/1", add<true>, cut<false>),
      adapter("test.same_factors/1", add<false>, cut<true>),
      adapter("test.whole_factors/1", add<false>, nullptr),
      {.id = "test.doubled/2",
       .documentation = "doubles what a linear layer gives",
       .kinds = {"Linear"},
       .attributes = {},
       .install = install_product<false>},
      {.id = "test.half_stopped/1",
       .documentation = "doubles what a linear layer gives, but not its gradient",
       .kinds = {"Linear"},
       .attributes = {},
       .install = install_product<true>},
      {.id = "test.of_nothing/1",
       .documentation = "is for layers that no model has",
       .kinds = {"Nothing"},
       .attributes = {},
       .install = install_product<false>}};
  for (const Operation& operation : kOperations)
    if (id == operation.id) return &operation;
  return nullptr;
}

}  // namespace

WEFT_OPERATION_LIBRARY(find_operation)

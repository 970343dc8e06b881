// An adapter for frozen linear layers: y = (x W + b) * (1 + strength s), with a trained factor s for each
// output feature, 0 at first. A larger strength learns faster. Like IA3 (Liu et al., Few-shot
// parameter-efficient fine-tuning is better and cheaper than in-context learning, arXiv:2205.05638).
#include <weft/define_operations.hpp>
#include <weft/nn/addition.hpp>
#include <weft/nn/site.hpp>

#include <ATen/ops/empty.h>

#include <memory>
#include <string>
#include <vector>

namespace {

namespace nn = weft::nn;
using weft::plan::Attributes;
using weft::plan::PlannedNode;
using weft::plan::PlannedParameter;

// The factors, (out).
class Factors final : public nn::Addition {
 public:
  Factors(int64_t out, at::ScalarType dtype) {
    weight =
        register_parameter("weight", at::empty({out}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  nn::Initial initial(std::string_view) const override { return nn::Initial::constant(0); }

  at::Tensor weight;
};

// What a layer computes in place of its product, of the features that this rank has.
class ScaledProduct final : public nn::LinearProduct {
 public:
  ScaledProduct(std::shared_ptr<Factors> factors, double strength)
      : factors_(std::move(factors)), strength_(strength) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    return nn::linear(x, weight, bias, layer.layout) * (factors_->weight * strength_ + 1);
  }

 private:
  const std::shared_ptr<Factors> factors_;
  const double strength_;
};

// Gives a layer its factors, before parameters have memory.
void add(nn::Layer& layer, const Attributes& attributes) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const int64_t out = linear.weight.size(linear.layout == nn::Linear::Layout::kOutIn ? 0 : 1);
  const auto factors = std::make_shared<Factors>(out, linear.weight.scalar_type());
  linear.register_module("factors", factors);
  linear.product =
      std::make_shared<ScaledProduct>(factors, static_cast<double>(attributes.integer("strength")));
}

// Returns whether ranks hold parts of `weight` along `dim`.
bool is_split(const PlannedParameter& weight, size_t dim) {
  const std::vector<weft::Run> whole = {{0, weight.shape[dim]}};
  for (const weft::Cut& cut : weight.cuts)
    if (cut.dims[dim] != whole) return true;
  return false;
}

// Splits the factors as the layer's output features are split. Shapes and sizes only, no tensors.
void cut(PlannedNode& node, const weft::plan::CutRequest& request, std::vector<std::string>& problems) {
  if (request.sizes.sequence_mode != "whole" && request.sizes.sequence == 1) {
    problems.push_back(
        "cannot have these factors under split_gather and ring, which compute a layer's product while they "
        "gather its input; use all_to_all or ring_attn");
    return;
  }
  if (request.layer == nullptr) return;  // the layer is whole
  const size_t out = node.kind == "Conv1D" ? 1 : 0;
  for (const PlannedParameter& weight : request.layer->params) {
    if (weight.name != "weight" || weight.cuts.empty()) continue;
    if (is_split(weight, 1 - out)) {
      problems.push_back(
          "cannot have these factors on a layer that is split along its input: its bias is added to the sum "
          "of the ranks, behind the factors; leave it out of \"on\"");
      return;
    }
    for (PlannedParameter& factors : node.params) {
      if (factors.name != "factors.weight") continue;
      factors.partition_axes = weight.partition_axes;
      for (const weft::Cut& part : weight.cuts)
        factors.cuts.push_back(weft::Cut::along(factors.shape, 0, part.dims[out]));
    }
  }
}

// Nothing else changes in a layer that is split: each rank scales the features that it computes.
void install(weft::Site&, const Attributes&) {}

// Returns adapter_config.json, which is saved beside the factors.
std::string configuration(const Attributes& attributes, const std::vector<PlannedNode>& layers) {
  std::string paths;
  for (const PlannedNode& layer : layers) paths += (paths.empty() ? "\"" : ", \"") + layer.path + "\"";
  return "{\n  \"operation\": \"own.template_name/1\",\n  \"strength\": " +
         std::to_string(attributes.integer("strength")) + ",\n  \"layers\": [" + paths + "]\n}\n";
}

// Returns the attribute that adapter.json may give.
weft::plan::AttributeRule strength() {
  weft::plan::AttributeRule rule;
  rule.standard.key = "strength";
  rule.standard.kind = WEFT_KIND_INT;
  rule.standard.integer = 1;
  rule.documentation = "the factors are 1 + strength s";
  rule.minimum = 1;
  return rule;
}

const weft::plan::Operation* find_operation(std::string_view id) {
  static const weft::plan::Operation kOperation = {
      .id = "own.template_name/1",
      .documentation = "multiplies each output feature of a frozen linear layer by a trained factor",
      .kinds = {"Conv1D", "Linear"},
      .attributes = {strength()},
      .keeps = "the factors of its output features",
      .cut = cut,
      .install = install,
      .add = add,
      .configuration = configuration};
  return id == kOperation.id ? &kOperation : nullptr;
}

}  // namespace

WEFT_OPERATION_LIBRARY(find_operation)

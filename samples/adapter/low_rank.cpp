// Low-rank adapters (Hu et al., LoRA: low-rank adaptation of large language models, arXiv:2106.09685) for
// frozen linear layers: y = x W + b + (alpha / rank) (x A) B.
//
//   weft train --adapter gpt2.json --model DIR --data FILE --output OUT
//
// trains the two factors under any strategy and writes them as PEFT's adapter_model.safetensors.
#include <weft/define_operations.hpp>
#include <weft/nn/addition.hpp>
#include <weft/nn/site.hpp>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

namespace {

namespace nn = weft::nn;
using weft::Site;
using weft::plan::Attributes;
using weft::plan::PlannedNode;
using weft::plan::PlannedParameter;
using Layout = nn::Linear::Layout;

// One of the two factors, with PEFT's name and layout: (out, in).
class Factor final : public nn::Addition {
 public:
  Factor(int64_t in, int64_t out, at::ScalarType dtype, nn::Initial initial) : initial_(initial) {
    weight = register_parameter("weight",
                                at::empty({out, in}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  nn::Initial initial(std::string_view) const override { return initial_; }

  at::Tensor weight;

 private:
  const nn::Initial initial_;
};

class LowRankProduct final : public nn::LinearProduct {
 public:
  LowRankProduct(std::shared_ptr<Factor> down, std::shared_ptr<Factor> up, double scale)
      : down_(std::move(down)), up_(std::move(up)), scale_(scale) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    const at::Tensor down = summed_down ? summed_down(down_->weight) : down_->weight,
                     up = summed_up ? summed_up(up_->weight) : up_->weight;
    const at::Tensor added = nn::linear(nn::linear(x, down, {}, Layout::kOutIn), up, {}, Layout::kOutIn);
    return nn::linear(x, weight, bias, layer.layout).add_(added, scale_);
  }

  // Return a factor whose gradient is summed over the ranks; null if every rank computes the whole gradient.
  Site::Summed summed_down, summed_up;

 private:
  const std::shared_ptr<Factor> down_, up_;
  const double scale_;
};

void add(nn::Layer& layer, const Attributes& attributes) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const bool out_in = linear.layout == Layout::kOutIn;
  const int64_t in = linear.weight.size(out_in ? 1 : 0), out = linear.weight.size(out_in ? 0 : 1),
                rank = attributes.integer("rank");
  const at::ScalarType dtype = linear.weight.scalar_type();
  // The initial values of PEFT: torch.nn.init.kaiming_uniform_(a = sqrt(5)) for A, and zeros for B, so that
  // the adapter has no effect at first.
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const auto down = std::make_shared<Factor>(in, rank, dtype, nn::Initial::uniform(-bound, bound));
  const auto up = std::make_shared<Factor>(rank, out, dtype, nn::Initial::constant(0));
  linear.register_module("lora_A", down);
  linear.register_module("lora_B", up);
  linear.product = std::make_shared<LowRankProduct>(
      down, up, static_cast<double>(attributes.integer("alpha")) / static_cast<double>(rank));
}

// Returns whether `weight` is sharded along `dim`.
bool is_split(const PlannedParameter& weight, size_t dim) {
  const std::vector<weft::Run> whole = {{0, weight.shape[dim]}};
  return std::any_of(weight.cuts.begin(), weight.cuts.end(),
                     [&](const weft::Cut& cut) { return cut.dims[dim] != whole; });
}

// Shards `factor` along `dim` as the weight of the layer is sharded along `weight_dim`.
void cut_alike(PlannedParameter& factor, size_t dim, const PlannedParameter& weight, size_t weight_dim) {
  factor.partition_axes = weight.partition_axes;
  for (const weft::Cut& cut : weight.cuts)
    factor.cuts.push_back(weft::Cut::along(factor.shape, dim, cut.dims[weight_dim]));
}

// Shards the factor that has the dimension along which the layer is split; the other factor is replicated.
void cut(PlannedNode& node, const weft::plan::CutRequest& request, std::vector<std::string>& problems) {
  if (request.sizes.sequence_mode != "whole" && request.sizes.sequence == 1) {
    problems.push_back(
        "cannot have a low-rank adapter where tensor-parallel ranks split sequences (split_gather and ring "
        "compute a layer's product while they gather its input); use all_to_all or ring_attn");
    return;
  }
  if (request.layer == nullptr) return;
  const size_t out_dim = node.kind == "Conv1D" ? 1 : 0;
  for (const PlannedParameter& weight : request.layer->params) {
    if (weight.name != "weight" || weight.cuts.empty()) continue;
    const bool splits_output = is_split(weight, out_dim);
    for (PlannedParameter& factor : node.params)
      if (factor.name == (splits_output ? "lora_B.weight" : "lora_A.weight"))
        cut_alike(factor, splits_output ? 0 : 1, weight, splits_output ? out_dim : 1 - out_dim);
  }
}

// In a split layer each rank computes a partial gradient of the replicated factor, which is summed.
void install(Site& site, const Attributes&) {
  if (!site.is_split()) return;
  auto& product = dynamic_cast<LowRankProduct&>(*site.layer<nn::Linear>().product);
  site.set(product.summed_down, site.summed_gradient("lora_A.weight"));
  site.set(product.summed_up, site.summed_gradient("lora_B.weight"));
}

// Returns adapter_config.json as PEFT's LoraConfig writes it.
std::string configuration(const Attributes& attributes, const std::vector<PlannedNode>& layers) {
  std::string targets;
  bool transposed = true;
  for (const PlannedNode& layer : layers) {
    targets += (targets.empty() ? "\"" : ", \"") + layer.path + "\"";
    transposed = transposed && layer.kind == "Conv1D";
  }
  return "{\n  \"peft_type\": \"LORA\",\n  \"r\": " + std::to_string(attributes.integer("rank")) +
         ",\n  \"lora_alpha\": " + std::to_string(attributes.integer("alpha")) +
         ",\n  \"lora_dropout\": 0.0,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": " +
         (transposed ? "true" : "false") + ",\n  \"inference_mode\": true,\n  \"target_modules\": [" +
         targets + "]\n}\n";
}

const weft::plan::Operation* find_operation(std::string_view id) {
  const auto integer = [](const char* key, int64_t standard, const char* documentation) {
    return weft::plan::AttributeRule{
        {.key = key, .kind = WEFT_KIND_INT, .integer = standard}, documentation, {}, 1};
  };
  static const weft::plan::Operation kLowRank = {
      .id = "sample.low_rank/1",
      .documentation = "adds the product of two trained factors of low rank to a frozen linear layer",
      .kinds = {"Conv1D", "Linear"},
      .attributes = {integer("alpha", 8, "the adapter's output is multiplied by alpha / rank"),
                     integer("rank", 8, "features between the two factors")},
      .keeps = "of the factors what the layer's split requires",
      .transfers = {{weft::plan::Transfer::Kind::kSharedGradients}},
      .cut = cut,
      .install = install,
      .add = add,
      .configuration = configuration};
  return id == kLowRank.id ? &kLowRank : nullptr;
}

}  // namespace

WEFT_OPERATION_LIBRARY(find_operation)

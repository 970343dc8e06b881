// Adapters of frozen linear layers whose parameters begin as functions of the layer's weight.
//
// test.dora/1 (Liu et al., DoRA: weight-decomposed low-rank adaptation, arXiv:2402.09353): the rows of
// W + s B A, each scaled to a trained magnitude, which begins as its norm. PEFT's names and formula.
// test.pissa/1 (Meng et al., PiSSA: principal singular values and singular vectors adaptation,
// arXiv:2404.02948): W + s (B A - B0 A0), where s B A begins as the best approximation of W of its rank, and
// B0 and A0 are its frozen copies.
#include <weft/define_operations.hpp>
#include <weft/nn/addition.hpp>
#include <weft/nn/site.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace {

namespace nn = weft::nn;
using weft::Site;
using weft::plan::Attributes;
using weft::plan::PlannedNode;
using weft::plan::PlannedParameter;
using Layout = nn::Linear::Layout;
using LayerValues = nn::Initial::LayerValues;

class Added final : public nn::Addition {
 public:
  Added(const std::vector<int64_t>& shape, at::ScalarType dtype, bool trained, nn::Initial initial)
      : initial_(std::move(initial)) {
    weight = register_parameter(
        "weight", at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta)), trained);
  }
  nn::Initial initial(std::string_view) const override { return initial_; }

  at::Tensor weight;
  Site::Summed summed;  // null if every rank computes the whole gradient
  at::Tensor value() const { return summed ? summed(weight) : weight; }

 private:
  const nn::Initial initial_;
};

// Returns the weight as (out, in).
at::Tensor out_in(const at::Tensor& weight, Layout layout) {
  return layout == Layout::kOutIn ? weight : weight.t();
}

at::Tensor through(const at::Tensor& x, const at::Tensor& down, const at::Tensor& up) {
  return nn::linear(nn::linear(x, down, {}, Layout::kOutIn), up, {}, Layout::kOutIn);
}

class DoraProduct final : public nn::LinearProduct {
 public:
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    const at::Tensor a = down->value(), b = up->value();
    const at::Tensor rows = out_in(weight, layer.layout).detach() + scale * at::matmul(b, a).detach();
    const at::Tensor squares = rows.square().sum(1);
    if (across) across->all_reduce(squares).wait();
    const at::Tensor y = nn::linear(x, weight, {}, layer.layout) + scale * through(x, a, b);
    const at::Tensor scaled = y * (magnitude->value() / squares.sqrt());
    return bias.defined() ? scaled + bias : scaled;
  }

  std::shared_ptr<Added> down, up, magnitude;
  double scale = 1;
  std::optional<weft::Communicator> across;  // the ranks that have parts of each row
};

class PissaProduct final : public nn::LinearProduct {
 public:
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    const at::Tensor moved =
        through(x, down->value(), up->value()) - through(x, first_down->weight, first_up->weight);
    return nn::linear(x, weight, bias, layer.layout) + scale * moved;
  }

  std::shared_ptr<Added> down, up, first_down, first_up;
  double scale = 1;
};

// The sizes of a layer and the attributes of its adapter.
struct Setting {
  Setting(const nn::Linear& linear, const Attributes& attributes)
      : layout(linear.layout),
        in(out_in(linear.weight, layout).size(1)),
        out(out_in(linear.weight, layout).size(0)),
        rank(attributes.integer("rank")),
        scale(static_cast<double>(attributes.integer("alpha")) / static_cast<double>(rank)),
        dtype(linear.weight.scalar_type()) {}
  std::shared_ptr<Added> add(nn::Linear& linear, const char* name, const std::vector<int64_t>& shape,
                             nn::Initial initial, bool trained = true) const {
    return linear.register_module(name, std::make_shared<Added>(shape, dtype, trained, std::move(initial)));
  }
  Layout layout;
  int64_t in, out, rank;
  double scale;
  at::ScalarType dtype;
};

void add_dora(nn::Layer& layer, const Attributes& attributes) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const Setting is(linear, attributes);
  const double bound = 1 / std::sqrt(static_cast<double>(is.in));
  const auto product = std::make_shared<DoraProduct>();
  product->down = is.add(linear, "lora_A", {is.rank, is.in}, nn::Initial::uniform(-bound, bound));
  product->up = is.add(linear, "lora_B", {is.out, is.rank}, nn::Initial::constant(0));
  product->magnitude =
      is.add(linear, "lora_magnitude_vector", {is.out},
             nn::Initial::of_layer([layout = is.layout, scale = is.scale](const LayerValues& layer) {
               const at::Tensor moved = at::matmul(layer("lora_B.weight"), layer("lora_A.weight"));
               return (out_in(layer("weight"), layout) + scale * moved).norm(2, 1);
             }));
  product->scale = is.scale;
  linear.product = product;
}

// Returns the factors of the best approximation of W / scale: (out, rank) if `up`, else (rank, in).
nn::Initial principal(const Setting& is, bool up) {
  return nn::Initial::of_layer([=](const LayerValues& layer) {
    const auto [u, s, v] = at::linalg_svd(out_in(layer("weight"), is.layout), /*full_matrices=*/false);
    const at::Tensor roots = (s.narrow(0, 0, is.rank) / is.scale).sqrt();
    return up ? u.narrow(1, 0, is.rank) * roots : roots.unsqueeze(1) * v.narrow(0, 0, is.rank);
  });
}

void add_pissa(nn::Layer& layer, const Attributes& attributes) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const Setting is(linear, attributes);
  const std::vector<int64_t> down = {is.rank, is.in}, up = {is.out, is.rank};
  const auto product = std::make_shared<PissaProduct>();
  product->down = is.add(linear, "lora_A", down, principal(is, false));
  product->up = is.add(linear, "lora_B", up, principal(is, true));
  product->first_down = is.add(linear, "first_A", down, principal(is, false), /*trained=*/false);
  product->first_up = is.add(linear, "first_B", up, principal(is, true), /*trained=*/false);
  product->scale = is.scale;
  linear.product = product;
}

// test.astray/1 has one parameter, whose values are computed from what the attribute `from` names.
void add_astray(nn::Layer& layer, const Attributes& attributes) {
  auto& linear = dynamic_cast<nn::Linear&>(layer);
  const Setting is(linear, attributes);
  is.add(linear, "lora_A", {is.rank},
         nn::Initial::of_layer(
             [from = attributes.text("from")](const LayerValues& layer) { return layer(from); }));
}

bool is_split(const PlannedParameter& weight, size_t dim) {
  const std::vector<weft::Run> whole = {{0, weight.shape[dim]}};
  return std::any_of(weight.cuts.begin(), weight.cuts.end(),
                     [&](const weft::Cut& cut) { return cut.dims[dim] != whole; });
}

// Shards what has the dimension along which the layer is split: outputs are the first dimension of B and the
// magnitude, inputs the second of A.
void cut(PlannedNode& node, const weft::plan::CutRequest& request, std::vector<std::string>&) {
  if (request.layer == nullptr) return;
  const size_t out_dim = node.kind == "Conv1D" ? 1 : 0;
  for (const PlannedParameter& weight : request.layer->params) {
    if (weight.name != "weight" || weight.cuts.empty()) continue;
    const bool splits_output = is_split(weight, out_dim);
    for (PlannedParameter& added : node.params) {
      const bool has_output = added.name.ends_with("_B.weight") || added.name.ends_with("_vector.weight"),
                 has_input = added.name.ends_with("_A.weight");
      if (splits_output ? !has_output : !has_input) continue;
      const size_t dim = splits_output ? 0 : 1, weight_dim = splits_output ? out_dim : 1 - out_dim;
      added.partition_axes = weight.partition_axes;
      for (const weft::Cut& cut : weight.cuts)
        added.cuts.push_back(weft::Cut::along(added.shape, dim, cut.dims[weight_dim]));
    }
  }
}

// In a split layer each rank computes a part of the gradients of what several ranks hold.
void install(Site& site, const Attributes&) {
  if (!site.splits_layers()) return;
  const bool splits_input = !site.planned("lora_A.weight").cuts.empty(),
             splits_output = !site.planned("lora_B.weight").cuts.empty();
  if (!splits_input && !splits_output) return;
  nn::LinearProduct* const product = site.layer<nn::Linear>().product.get();
  const auto sum = [&](const std::shared_ptr<Added>& added, const std::string& name) {
    site.set(added->summed, site.summed_gradient(name + ".weight"));
  };
  if (auto* const dora = dynamic_cast<DoraProduct*>(product)) {
    sum(dora->down, "lora_A");
    sum(dora->up, "lora_B");
    sum(dora->magnitude, "lora_magnitude_vector");
    if (splits_input) site.set(dora->across, site.tensor());
  } else if (auto* const pissa = dynamic_cast<PissaProduct*>(product)) {
    sum(pissa->down, "lora_A");
    sum(pissa->up, "lora_B");
  }
}

// Returns adapter_config.json of PEFT's DoRA.
std::string configuration(const Attributes& attributes, const std::vector<PlannedNode>& layers) {
  std::string targets;
  bool transposed = true;
  for (const PlannedNode& layer : layers) {
    targets += (targets.empty() ? "\"" : ", \"") + layer.path + "\"";
    transposed = transposed && layer.kind == "Conv1D";
  }
  return "{\"peft_type\": \"LORA\", \"use_dora\": true, \"r\": " +
         std::to_string(attributes.integer("rank")) +
         ", \"lora_alpha\": " + std::to_string(attributes.integer("alpha")) +
         ", \"lora_dropout\": 0.0, \"bias\": \"none\", \"fan_in_fan_out\": " +
         (transposed ? "true" : "false") + ", \"inference_mode\": true, \"target_modules\": [" + targets +
         "]}\n";
}

weft::plan::Operation operation(const char* id, const char* documentation, weft::plan::Operation::Add add) {
  const auto integer = [](const char* key) {
    return weft::plan::AttributeRule{{.key = key, .kind = WEFT_KIND_INT, .integer = 4}, key, {}, 1};
  };
  return {.id = id,
          .documentation = documentation,
          .kinds = {"Conv1D", "Linear"},
          .attributes = {integer("alpha"), integer("rank")},
          .keeps = "of the added parameters what the layer's split requires",
          .transfers = {{weft::plan::Transfer::Kind::kSharedGradients}},
          .cut = cut,
          .install = install,
          .add = add,
          .configuration = configuration};
}

const weft::plan::Operation* find_operation(std::string_view id) {
  static const weft::plan::Operation kDora =
      operation("test.dora/1", "scales the rows of a weight with a low-rank change", add_dora);
  static const weft::plan::Operation kPissa =
      operation("test.pissa/1", "trains the principal part of a weight", add_pissa);
  static const weft::plan::Operation kAstray = [] {
    weft::plan::Operation astray = operation("test.astray/1", "begins with what is not there", add_astray);
    const weft::plan::AttributeRule from = {{.key = "from", .kind = WEFT_KIND_TEXT, .text = "weight"},
                                            "what"};
    astray.attributes.insert(astray.attributes.begin() + 1, from);
    astray.cut = nullptr;
    return astray;
  }();
  for (const weft::plan::Operation* known : {&kDora, &kPissa, &kAstray})
    if (known->id == id) return known;
  return nullptr;
}

}  // namespace

WEFT_OPERATION_LIBRARY(find_operation)

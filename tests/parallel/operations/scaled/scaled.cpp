// A library with an operation for linear layers, y = factor (x W + b), one for norms, and two that split
// linear layers over the tensor axis.
#include <weft/define_operations.hpp>
#include <weft/nn/site.hpp>
#include <weft/split_parameter.hpp>

namespace {

using weft::plan::Attributes;
using weft::plan::Operation;

class ScaledProduct final : public weft::nn::LinearProduct {
 public:
  explicit ScaledProduct(int64_t factor) : factor_(factor) {}
  at::Tensor forward(const weft::nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) const override {
    return weft::nn::linear(x, weight, bias, layer.layout) * factor_;
  }

 private:
  const int64_t factor_;
};

void install(weft::Site& site, const Attributes& attributes) {
  site.set(site.layer<weft::nn::Linear>().product,
           std::make_shared<ScaledProduct>(attributes.integer("factor")));
}

class HalfOfParameters final : public weft::nn::NormOperation {
 public:
  at::Tensor parameter(const at::Tensor& parameter) const override { return parameter / 2; }
};

void install_norm(weft::Site& site, const Attributes&) {
  site.set(site.layer<weft::nn::LayerNorm>().operation, std::make_shared<HalfOfParameters>());
}

// A Conv1D of which each rank has some output features.
class Column final : public weft::nn::LinearOperation {
 public:
  explicit Column(std::shared_ptr<weft::nn::ResidualStream> stream) : stream_(std::move(stream)) {}
  at::Tensor forward(const weft::nn::Linear& layer, const at::Tensor& x) const override {
    return weft::nn::product(layer, stream_->enter(x), layer.weight, layer.bias);
  }

 private:
  const std::shared_ptr<weft::nn::ResidualStream> stream_;
};

// A Conv1D of which each rank has some input features: scale (x W) + b.
class Row final : public weft::nn::LinearOperation {
 public:
  Row(std::shared_ptr<weft::nn::ResidualStream> stream, double scale)
      : stream_(std::move(stream)), scale_(scale) {}
  at::Tensor forward(const weft::nn::Linear& layer, const at::Tensor& x) const override {
    return stream_->leave_product(layer, x) * scale_ + stream_->parameter(layer.bias);
  }

 private:
  const std::shared_ptr<weft::nn::ResidualStream> stream_;
  const double scale_;
};

void cut_columns(weft::plan::PlannedNode& node, const weft::plan::CutRequest& request,
                 std::vector<std::string>& problems) {
  for (weft::plan::PlannedParameter& parameter : node.params) {
    const std::string problem =
        split_parameter(parameter, {.dim = parameter.name == "weight" ? 1 : 0}, request.sizes);
    if (!problem.empty()) problems.push_back("has a " + parameter.name + " " + problem);
  }
}

void cut_rows(weft::plan::PlannedNode& node, const weft::plan::CutRequest& request,
              std::vector<std::string>& problems) {
  for (weft::plan::PlannedParameter& parameter : node.params) {
    if (parameter.name != "weight") continue;
    const std::string problem = split_parameter(parameter, {.dim = 0}, request.sizes);
    if (!problem.empty()) problems.push_back("has a weight " + problem);
  }
}

void install_column(weft::Site& site, const Attributes&) {
  if (site.splits_layers())
    site.set(site.layer<weft::nn::Linear>().operation, std::make_shared<Column>(site.stream()));
}

void install_row(weft::Site& site, const Attributes& attributes) {
  if (site.splits_layers())
    site.set(site.layer<weft::nn::Linear>().operation,
             std::make_shared<Row>(site.stream(), attributes.real("scale")));
}

const Operation* find_operation(std::string_view id) {
  static const Operation kScaled = {
      .id = "test.scaled/1",
      .documentation = "multiplies what a linear layer gives",
      .kinds = {"Conv1D", "Linear"},
      .attributes = {{{.key = "factor", .kind = WEFT_KIND_INT, .integer = 1}, "the factor"}},
      .install = install};
  static const Operation kUnfinished = {.id = "test.unfinished/1",
                                        .documentation = "has no second half",
                                        .kinds = {"Linear"},
                                        .attributes = {}};
  static const Operation kNorm = {.id = "test.norm/1",
                                  .documentation = "halves the parameters of a norm",
                                  .kinds = {"LayerNorm"},
                                  .attributes = {},
                                  .install = install_norm};
  using Kind = weft::plan::Transfer::Kind;
  static const Operation kColumn = {.id = "test.column/1",
                                    .documentation = "splits the output features of a Conv1D",
                                    .kinds = {"Conv1D"},
                                    .attributes = {},
                                    .transfers = {{Kind::kEnter}},
                                    .cut = cut_columns,
                                    .claims = {{weft::plan::Fact::kSplitsOutput}},
                                    .install = install_column};
  static const Operation kRow = {
      .id = "test.row/1",
      .documentation = "splits the input features of a Conv1D",
      .kinds = {"Conv1D"},
      .attributes = {{{.key = "scale", .kind = WEFT_KIND_FLOAT, .real = 1}, "a factor of the product"}},
      .transfers = {{Kind::kLeaveLinear}, {Kind::kOwnGradients}},
      .cut = cut_rows,
      .claims = {{weft::plan::Fact::kSplitsInput}},
      .install = install_row};
  for (const Operation* operation : {&kScaled, &kUnfinished, &kNorm, &kColumn, &kRow})
    if (id == operation->id) return operation;
  return nullptr;
}

}  // namespace

WEFT_OPERATION_LIBRARY(find_operation)

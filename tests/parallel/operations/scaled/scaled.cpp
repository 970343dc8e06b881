// A library with an operation for linear layers, y = factor (x W + b), and one for norms.
#include <weft/define_operations.hpp>
#include <weft/nn/site.hpp>

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
  for (const Operation* operation : {&kScaled, &kUnfinished, &kNorm})
    if (id == operation->id) return operation;
  return nullptr;
}

}  // namespace

WEFT_OPERATION_LIBRARY(find_operation)

// Low-rank adapters (Hu et al., LoRA: low-rank adaptation of large language models, arXiv:2106.09685) for
// frozen linear layers: y = x W^T + b + s (x A^T) B^T with s = alpha / rank.
//
//   weft train --adapter gpt2.json --model DIR --data FILE --output OUT
//
// The plugin is of tier stable: it uses libtorch's stable ABI alone, so this binary runs with libtorch 2.10
// and every later one. The engine makes the autograd node of forward and backward.
#include <torch/csrc/stable/ops.h>

#include <cmath>
#include <weft/torch/operation.hpp>

using namespace weft::plugin;

namespace {

namespace ts = torch::stable;

Tensor transposed(const Tensor& matrix) {
  return ts::transpose(matrix, 0, 1);
}

// Returns x with its leading dimensions as rows.
Tensor rows_of(const Tensor& x) {
  const int64_t features = x.size(x.dim() - 1);
  const int64_t sizes[] = {features == 0 ? 0 : x.numel() / features, features};
  return ts::reshape(x, {sizes, 2});
}

// Returns rows in the shape of `like` but for the last dimension.
Tensor with_rows_of(const Tensor& rows, const Tensor& like) {
  std::vector<int64_t> sizes;
  for (int64_t dim = 0; dim + 1 < like.dim(); ++dim) sizes.push_back(like.size(dim));
  sizes.push_back(rows.size(1));
  return ts::reshape(rows, {sizes.data(), sizes.size()});
}

// Returns a + scale * b.
Tensor plus(const Tensor& a, const Tensor& b, double scale = 1) {
  return ts::subtract(a, b, -scale);
}

Tensor sum_of_rows(const Tensor& rows) {
  const int64_t dims[] = {0};
  return ts::sum(rows, torch::headeronly::IntHeaderOnlyArrayRef(dims, 1));
}

Tensor scaled(const Tensor& x, double scale) {
  return ts::subtract(ts::new_zeros(x, x.sizes()), x, -scale);
}

class LowRank final : public LinearOperation {
 public:
  LowRank() {
    id = "sample.low_rank_stable/1";
    documentation = "adds the product of two trained factors of low rank to a frozen linear layer";
    flags = WEFT_OPERATION_SPLITS_INPUT | WEFT_OPERATION_SPLITS_OUTPUT;
    num_saved = 1;  // x A^T
    attributes = {
        {"alpha", int64_t{8}, "the adapter's output is multiplied by alpha / rank", 1, "lora_alpha"},
        {"rank", int64_t{8}, "features between the two factors", 1, "r"}};
    adapter_config = R"({"peft_type": "LORA", "lora_dropout": 0.0, "bias": "none"})";
  }

  // The initial values of PEFT: torch.nn.init.kaiming_uniform_(a = sqrt(5)) for A, and zeros for B, so that
  // the adapter has no effect at first.
  std::vector<AddedParameter> parameters(const Options& attributes, int64_t inputs,
                                         int64_t outputs) const override {
    const auto rank = attributes.get<int64_t>("rank");
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    return {{"lora_A.weight",
             {rank, inputs},
             {WEFT_ALONG_NOTHING, WEFT_ALONG_INPUT},
             WEFT_INITIAL_UNIFORM,
             -bound,
             bound},
            {"lora_B.weight", {outputs, rank}, {WEFT_ALONG_OUTPUT, WEFT_ALONG_NOTHING}}};
  }

  Tensor forward(const LinearCall& call) const override {
    const Tensor x = rows_of(call.input), inner = ts::matmul(x, transposed(call.parameters[0]));
    call.save(0, inner);
    const Tensor product = ts::matmul(x, transposed(call.weight)),
                 added = ts::matmul(inner, transposed(call.parameters[1]));
    const Tensor sum = plus(product, added, scale(call));
    return with_rows_of(call.bias.defined() ? plus(sum, call.bias) : sum, call.input);
  }

  void backward(const LinearCall& call, const Tensor& output_gradient,
                const LinearGradients& gradients) const override {
    const Tensor dy = rows_of(output_gradient), x = rows_of(call.input);
    const Tensor down = call.parameters[0], up = call.parameters[1];
    const Tensor inner_gradient = scaled(ts::matmul(dy, up), scale(call));
    if (gradients.input.is_needed())
      gradients.input.set(
          with_rows_of(plus(ts::matmul(dy, call.weight), ts::matmul(inner_gradient, down)), call.input));
    if (gradients.weight.is_needed()) gradients.weight.set(ts::matmul(transposed(dy), x));
    if (gradients.bias.is_needed()) gradients.bias.set(sum_of_rows(dy));
    if (gradients.parameters[0].is_needed())
      gradients.parameters[0].set(ts::matmul(transposed(inner_gradient), x));
    if (gradients.parameters[1].is_needed())
      gradients.parameters[1].set(scaled(ts::matmul(transposed(dy), call.saved(0)), scale(call)));
  }

 private:
  static double scale(const LinearCall& call) {
    return static_cast<double>(call.attributes.get<int64_t>("alpha")) /
           static_cast<double>(call.attributes.get<int64_t>("rank"));
  }
};

}  // namespace

WEFT_LINEAR_OPERATION(LowRank)

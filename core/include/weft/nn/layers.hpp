// Layers. Parameters are made on the meta device in the dtype given; names and layouts are Hugging Face's.
// Shapes: B batch, T sequence, C channels, H heads, D channels of a head, V vocabulary.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weft/nn/operation.hpp"

namespace weft::nn {

// The base of all layers: kind() is what a shard policy sees.
class Layer : public torch::nn::Module {
 public:
  virtual std::string kind() const = 0;
  // An integer that a plan may divide ("num_heads"); null if the layer has none of that name.
  virtual int64_t* attribute(std::string_view name) { return nullptr; }
};

// A layer whose formula has two forms that agree but for rounding: fused, in few passes over memory and with
// little kept for backward, and plain, one operation of libtorch after another as Hugging Face writes it.
class Fusible : public Layer {
 public:
  bool fused = true;  // a plan chooses
};

// y = x w^T + b with weight (out, in), as torch.nn.Linear; with Layout::kInOut y = x w + b with weight (in,
// out), as in Conv1D of transformers.
class Linear : public Layer {
 public:
  enum class Layout { kOutIn, kInOut };
  Linear(int64_t in, int64_t out, bool bias, at::ScalarType dtype, Layout layout = Layout::kOutIn);
  // Of tensors that exist: a weight tied to that of another layer. `bias` may be undefined.
  Linear(const at::Tensor& weight, const at::Tensor& bias, Layout layout = Layout::kOutIn);
  at::Tensor operator()(const at::Tensor& x) const;  // x: (..., in) -> (..., out)
  std::string kind() const override { return layout == Layout::kOutIn ? "Linear" : "Conv1D"; }

  at::Tensor weight, bias;  // bias may be undefined
  const Layout layout;
  std::shared_ptr<LinearOperation> operation;  // never null; the plan replaces it
  std::shared_ptr<LinearProduct> product;      // null: that of x and the weight
};

// As a Linear of this layout; `bias` may be undefined. The result is no view: who comes next may write over
// it.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  Linear::Layout layout);

// A table of rows that are looked up by id, as torch.nn.Embedding.
class Embedding : public Layer {
 public:
  // `padding`: an id whose row gets no gradient, if any.
  Embedding(int64_t count, int64_t channels, at::ScalarType dtype, std::optional<int64_t> padding = {});
  at::Tensor operator()(const at::Tensor& ids) const;  // ids: (B, T) int64, all in range -> (B, T, C)
  std::string kind() const override { return "Embedding"; }

  at::Tensor weight;  // (V, C)
  const std::optional<int64_t> padding;
  std::shared_ptr<EmbeddingOperation> operation;  // never null; the plan replaces it
};

// A place in a model where a plan may put something: the identity otherwise.
class Identity : public Layer {
 public:
  at::Tensor operator()(const at::Tensor& x) const { return operation ? operation->forward(x) : x; }
  std::string kind() const override { return "Identity"; }

  std::shared_ptr<IdentityOperation> operation;  // may be null
};

// Normalization over the last dimension, as torch.nn.LayerNorm.
class LayerNorm : public Fusible {
 public:
  LayerNorm(int64_t channels, double epsilon, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // over the last dimension
  std::string kind() const override { return "LayerNorm"; }

  at::Tensor weight, bias;
  const double epsilon;
  std::shared_ptr<NormOperation> operation;  // may be null
};

// Sets elements to zero at random in training, as torch.nn.Dropout.
class Dropout : public Fusible {
 public:
  explicit Dropout(double probability) : probability(probability) {}
  at::Tensor operator()(const at::Tensor& x) const;  // the identity in evaluation
  // residual + dropout(x), of one shape.
  at::Tensor added(const at::Tensor& residual, const at::Tensor& x) const;
  std::string kind() const override { return "Dropout"; }

  const double probability;
  // Of random numbers: 0 is the default generator's. Ranks that hold different parts of one activation have
  // a stream each, so that their masks differ; a stream follows from the default generator's state.
  uint64_t random_stream = 0;

 private:
  bool drops() const { return is_training() && probability > 0; }
  at::Tensor mask(at::IntArrayRef shape) const;  // 1 for what is kept
  double scale() const;                          // of what is kept
};

// Throws INVALID_ARGUMENT naming `what`, the value and its position unless all ids are 0 to count - 1 or
// `ignored`. Values are looked at on the CPU only.
void check_ids(const at::Tensor& ids, int64_t count, std::string_view what,
               std::optional<int64_t> ignored = {});

// Scaled dot-product attention: softmax(scale q k^T + mask) v. q, k, v: (B, H, T, D), any strides with the
// last one 1; `mask` is boolean (true: attend) or additive and broadcasts to (B, H, T, T), or undefined. What
// a row gives that may attend to nothing is not defined, but finite.
struct AttentionOptions {
  bool causal = false;          // position i attends to 0 ... i; with a mask as well, where both allow it
  bool mask_is_causal = false;  // the mask forbids later positions, which need not be looked at
  std::optional<double> scale;  // 1 / sqrt(D) if absent
  double dropout = 0;           // of the probabilities
  uint64_t random_stream = 0;   // of its masks, as Dropout's
  bool upcast = false;          // computes in fp32 what is given in fp16 or bf16
  bool fused = true;            // one kernel, where there is one for this; the formula otherwise
};
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     const AttentionOptions& options);

// The same of one tensor that holds all three, qkv: (B, T, 3, H, D) -> (B, T, H D). Faster where nothing is
// masked or dropped.
at::Tensor self_attention(const at::Tensor& qkv, const at::Tensor& mask, const AttentionOptions& options);
// The same of q (B, T, H, D) and of k and v (B, S, G, D): H / G heads of q, one after the other, share one of
// k and v, which are not repeated for it. S is another than T where they are of another sequence.
at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& mask, const AttentionOptions& options);

// The base of a model's attention layers: what a plan may change of them.
class Attention : public Layer {
 public:
  std::string kind() const override { return "Attention"; }

  bool fused = true;                              // as AttentionOptions
  std::shared_ptr<AttentionOperation> operation;  // may be null

 protected:
  // self_attention(), or what the plan wants.
  at::Tensor attend(const at::Tensor& qkv, const at::Tensor& mask, AttentionOptions options) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                    AttentionOptions options) const;
  // The positions of `x`, whose whole sequences have `given` (1 or B, T), or undefined for 0 ... T - 1.
  at::Tensor positions_of(const at::Tensor& x, const at::Tensor& given) const {
    return operation ? operation->positions(given, x) : given;
  }
};

// The base of what makes a bias by position that attention adds: what a plan may change of it.
class RelativeAttentionBias : public Layer {
 public:
  using Part = PositionBiasOperation::Part;
  std::string kind() const override { return "RelativeAttentionBias"; }

  std::shared_ptr<PositionBiasOperation> operation;  // may be null

 protected:
  // What is needed here, of sequences of which this rank has `positions`.
  Part part(int64_t positions, int64_t heads) const {
    return operation ? operation->part(heads) : Part{positions, {{0, positions}}, {0, heads}};
  }
};

// The activations of Hugging Face's ACT2FN by name ("gelu_new", "relu", ...); throws naming the known ones.
using ActivationFunction = at::Tensor (*)(const at::Tensor&);
ActivationFunction activation(std::string_view name);

// That of an MLP.
class Activation : public Fusible {
 public:
  explicit Activation(std::string_view name) : function_(activation(name)) {}
  at::Tensor operator()(const at::Tensor& x) const;
  at::Tensor operator()(const at::Tensor& gate, const at::Tensor& up) const;  // of a gated one: f(gate) up
  std::string kind() const override { return "Activation"; }

 private:
  const ActivationFunction function_;
};

// The sum over all positions of the cross entropy of `logits` (..., V) with `labels` (...) int64; positions
// with `ignored` labels count nothing.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored = -100);
// The same of a head's logits, as they come out of it: they may be this rank's part of the vocabulary.
at::Tensor cross_entropy_sum(const Linear& head, const at::Tensor& logits, const at::Tensor& labels,
                             int64_t ignored = -100);
// The number of labels that are not `ignored`.
double count_labels(const at::Tensor& labels, int64_t ignored = -100);

}  // namespace weft::nn

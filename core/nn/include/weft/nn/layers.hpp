// Layers. Parameters are created on the meta device in the given dtype; names and layouts are Hugging Face's.
// Shapes: B batch, T and S positions, C channels, H and G heads, D channels of a head, V vocabulary.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/nn/key_value_cache.hpp"
#include "weft/nn/operation.hpp"

namespace weft::nn {

// The base of all layers.
class Layer : public torch::nn::Module {
 public:
  // Returns the kind under which a shard policy sees the layer ("Linear").
  virtual std::string kind() const = 0;
  // Returns the integers that a plan may divide, with their names ("num_heads").
  virtual std::vector<std::pair<std::string_view, int64_t*>> attributes() { return {}; }
};

// The base of layers that have two forms with equal results up to rounding. The fused form makes few passes
// over memory and saves little for backward; the plain form runs Hugging Face's operations one by one.
class Fusible : public Layer {
 public:
  bool fused = true;  // set by a plan
};

// Computes y = x w^T + b with weight (out, in), like torch.nn.Linear, or, with Layout::kInOut, y = x w + b
// with weight (in, out), like Conv1D of transformers.
class Linear : public Layer {
 public:
  enum class Layout { kOutIn, kInOut };
  Linear(int64_t in, int64_t out, bool bias, at::ScalarType dtype, Layout layout = Layout::kOutIn);
  // Makes a layer of existing tensors, such as a tied weight. `bias` may be undefined.
  Linear(const at::Tensor& weight, const at::Tensor& bias, Layout layout = Layout::kOutIn);
  at::Tensor operator()(const at::Tensor& x) const;  // x: (..., in) -> (..., out)
  std::string kind() const override { return layout == Layout::kOutIn ? "Linear" : "Conv1D"; }

  at::Tensor weight, bias;  // bias may be undefined
  const Layout layout;
  std::shared_ptr<LinearOperation> operation;  // never null; replaced by a plan
  std::shared_ptr<LinearProduct> product;      // null for linear() of x and the weight
};

// Computes what a Linear of this layout computes. `bias` may be undefined. The result is not a view.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  Linear::Layout layout);

// Computes several layers of one input, in their order. Where that is faster, backward accumulates the
// gradient of the input inside the matrix products, not by additions after them.
std::vector<at::Tensor> linears(const at::Tensor& x, const std::vector<const Linear*>& layers);

// Looks up rows of a table by id, like torch.nn.Embedding.
class Embedding : public Layer {
 public:
  // The row of the id `padding` gets no gradient.
  Embedding(int64_t count, int64_t channels, at::ScalarType dtype, std::optional<int64_t> padding = {});
  at::Tensor operator()(const at::Tensor& ids) const;  // ids: (B, T) int64, all in range -> (B, T, C)
  std::string kind() const override { return "Embedding"; }

  at::Tensor weight;  // (V, C)
  const std::optional<int64_t> padding;
  std::shared_ptr<EmbeddingOperation> operation;  // never null; replaced by a plan
};

// A place in a model where a plan can insert an operation. Without one it returns its input.
class Identity : public Layer {
 public:
  at::Tensor operator()(const at::Tensor& x) const { return operation ? operation->forward(x) : x; }
  std::string kind() const override { return "Identity"; }

  std::shared_ptr<IdentityOperation> operation;  // may be null
};

// What a norm returns for a residual connection, kept + f(normed).
struct Branch {
  at::Tensor kept;    // the input
  at::Tensor normed;  // its norm
};

// Normalizes over the last dimension, like torch.nn.LayerNorm. Without `affine` it has no parameters.
class LayerNorm : public Fusible {
 public:
  LayerNorm(int64_t channels, double epsilon, at::ScalarType dtype, bool affine = true);
  at::Tensor operator()(const at::Tensor& x) const;  // x: (..., C) -> (..., C)
  // Returns the input and its norm. Where there is a kernel for it, backward adds the gradients of both while
  // it computes that of the norm, which takes one pass over memory less.
  Branch branch(const at::Tensor& x) const;
  std::string kind() const override { return "LayerNorm"; }

  at::Tensor weight, bias;  // undefined if the layer has no parameters
  const double epsilon;
  std::shared_ptr<NormOperation> operation;  // may be null

 private:
  std::pair<at::Tensor, at::Tensor> parameters_in_use() const;  // weight and bias
};

// Sets elements to zero at random in training mode, like torch.nn.Dropout.
class Dropout : public Fusible {
 public:
  explicit Dropout(double probability) : probability(probability) {}
  at::Tensor operator()(const at::Tensor& x) const;  // returns x in evaluation mode
  // Returns residual + dropout(x), which have the same shape.
  at::Tensor added(const at::Tensor& residual, const at::Tensor& x) const;
  bool drops() const { return is_training() && probability > 0; }
  std::string kind() const override { return "Dropout"; }

  const double probability;
  // The random stream of the masks; 0 is the default generator. Ranks that hold different parts of an
  // activation have a stream each, so that their masks differ. A stream is seeded by the default generator.
  uint64_t random_stream = 0;

 private:
  double scale() const;  // multiplies the elements that are kept
};

// Throws INVALID_ARGUMENT, naming `what`, the value and its position, unless all ids are 0 to count - 1 or
// `ignored`. Checks values on the CPU only.
void check_ids(const at::Tensor& ids, int64_t count, std::string_view what,
               std::optional<int64_t> ignored = {});

// Scaled dot-product attention: softmax(scale q k^T + mask) v, or, with a soft cap c, softmax(c tanh(scale q
// k^T / c) + mask) v (Gemma 2, arXiv:2408.00118, section 2). q, k, v: (B, H, T, D) with any strides whose
// last one is 1. `mask` is boolean (true: attend) or additive and broadcasts to (B, H, T, T), or it is
// document begins (masks.hpp), or undefined.
// The result of a row that may attend to nothing is unspecified, but finite.
struct AttentionOptions {
  bool causal = false;          // position i attends to 0 ... i, and only where the mask allows it too
  bool mask_is_causal = false;  // the mask already excludes later positions, so they can be skipped
  int64_t window = 0;           // if not 0, position i attends to i - window + 1 ... i; needs `causal`
  std::optional<double> scale;  // 1 / sqrt(D) if absent
  double soft_cap = 0;          // if not 0, the bound of the scores, before the mask is added; not negative
  double dropout = 0;           // probability of dropping an attention weight
  uint64_t random_stream = 0;   // of the dropout masks, as Dropout::random_stream
  bool upcast = false;          // computes fp16 and bf16 inputs in fp32
  bool fused = true;            // uses a fused kernel if there is one for these arguments
  // Document begins (masks.hpp): each document attends to itself alone, which is computed for one after the
  // other. For attention that has a mask too; otherwise they can stand in its place. Undefined: rows are one.
  at::Tensor documents = {};
};
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     const AttentionOptions& options);

// Returns cap tanh(x / cap), which is near x for small x and never exceeds `cap`; x itself if `cap` is 0.
// Throws INVALID_ARGUMENT if it is negative or not a number.
at::Tensor soft_capped(const at::Tensor& x, double cap);

// Computes attention of packed queries, keys and values, qkv: (B, T, 3, H, D) -> (B, T, H D). Faster than the
// overload below if there is no dropout.
at::Tensor self_attention(const at::Tensor& qkv, const at::Tensor& mask, const AttentionOptions& options);
// Computes attention of q (B, T, H, D) to k and v (B, S, G, D) -> (B, T, H D). H / G consecutive heads of q
// share one head of k and v (grouped-query attention), which are not repeated. S differs from T for cross
// attention.
at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& mask, const AttentionOptions& options);

// The base of a model's attention layers, with the members that a plan may set.
class Attention : public Layer {
 public:
  std::string kind() const override { return "Attention"; }

  bool fused = true;                              // see AttentionOptions
  uint64_t random_stream = 0;                     // one for each rank where a plan divides the heads
  std::shared_ptr<AttentionOperation> operation;  // may be null

 protected:
  // Compute self_attention(), or the operation of the plan, with `fused` and `random_stream` of this layer.
  // In a forward with a KeyValueCache, q, k and v are those of the positions of this forward, which attend to
  // themselves and to all earlier ones. Without `mask` the cache masks padding; a mask covers all keys.
  at::Tensor attend(const at::Tensor& qkv, const at::Tensor& mask, AttentionOptions options) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                    AttentionOptions options) const;
  // Computes attention of q (B, T, H, D) to another sequence. `make` returns its keys and values (B, S, G,
  // D); a cache keeps them, so that it is called once for all forwards. `mask` broadcasts to (B, H, T, S).
  using KeysAndValues = std::function<KeyValueCache::KeysValues()>;
  at::Tensor attend_source(const at::Tensor& q, const KeysAndValues& make, const at::Tensor& mask,
                           AttentionOptions options) const;
  // Returns the position ids of `x`. `given` (1 or B, T) has those of the whole sequences; undefined means 0
  // ... T - 1.
  at::Tensor positions_of(const at::Tensor& x, const at::Tensor& given) const {
    return operation ? operation->positions(given, x) : given;
  }

 private:
  // Throws UNIMPLEMENTED if an operation computes attention, which knows no cache.
  void require_cache() const;
};

// The base of layers that compute a position bias of attention, with the members that a plan may set.
class RelativeAttentionBias : public Layer {
 public:
  using Part = PositionBiasOperation::Part;
  std::string kind() const override { return "RelativeAttentionBias"; }

  std::shared_ptr<PositionBiasOperation> operation;  // may be null

 protected:
  // Returns the part of the bias that this rank computes. `positions` is the number of positions of its
  // hidden states, `heads` the number of heads of the layer. With a KeyValueCache the queries are those of
  // this forward, and the positions also those before it.
  Part part(int64_t positions, int64_t heads) const;
  // Returns the additive mask of padding: `given`, or that of the cache, (N, 1, 1, keys) in the dtype of
  // `like`; undefined if nothing is padding.
  static at::Tensor cached_padding(const at::Tensor& given, const at::Tensor& like);
};

// Returns an activation of Hugging Face's ACT2FN by its name ("gelu_new", "relu", ...). Throws
// INVALID_ARGUMENT naming the known ones.
using ActivationFunction = at::Tensor (*)(const at::Tensor&);
ActivationFunction activation(std::string_view name);

// The activation of an MLP.
class Activation : public Fusible {
 public:
  explicit Activation(std::string_view name) : function_(activation(name)) {}
  at::Tensor operator()(const at::Tensor& x) const;
  at::Tensor operator()(const at::Tensor& gate, const at::Tensor& up) const;  // gated: f(gate) * up
  // Returns f(layer(x)). Where a device has a kernel for it, the gradient of the layer's bias is summed while
  // that of GELU is computed.
  at::Tensor of_linear(const Linear& layer, const at::Tensor& x) const;
  std::string kind() const override { return "Activation"; }

 private:
  const ActivationFunction function_;
};

// Returns the cross entropy of `logits` (..., V) and `labels` (...) int64, summed over all positions.
// Positions whose label is `ignored` do not contribute. A caller that gives `gradient` expects backward to
// pass this gradient to the sum, and promises that nobody else reads the logits: the gradient of the logits
// may overwrite them at once. Another gradient then costs one more pass over them.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored = -100,
                             std::optional<double> gradient = {});
// Returns the cross entropy of logits that `head` returned, which may be this rank's part of the vocabulary.
at::Tensor cross_entropy_sum(const Linear& head, const at::Tensor& logits, const at::Tensor& labels,
                             int64_t ignored = -100);

}  // namespace weft::nn

// The operators of layers and losses, by the rules of device_operators.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

namespace weft::operators {

// RMS norm (arXiv:1910.07467) of x (..., C) with the weight (C), of one type: y = x scale weight with
// scale = 1 / sqrt(mean(x^2) + epsilon) for each row. `scale`: (rows), exact.
struct RmsNorm {
  static constexpr const char* kName = "weft::rms_norm";
  static constexpr const char* kSchema =
      "weft::rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor y, Tensor scale)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& x, const at::Tensor& weight,
                                                       double epsilon);
};

// The gradients of x and of the weight, each undefined unless `wanted` has true for it. `residual`, if it is
// given, is added to that of x: the gradient of x from elsewhere.
struct RmsNormBackward {
  static constexpr const char* kName = "weft::rms_norm_backward";
  static constexpr const char* kSchema =
      "weft::rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor scale, Tensor? residual,"
      " bool[2] wanted)"
      " -> (Tensor dx, Tensor dweight)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& dy, const at::Tensor& x,
                                                       const at::Tensor& weight, const at::Tensor& scale,
                                                       const std::optional<at::Tensor>& residual,
                                                       std::array<bool, 2> wanted);
};

// Layer norm (arXiv:1607.06450) of x (..., C) with weight and bias (C), of one type: y = (x - mean) scale
// weight
// + bias with scale = 1 / sqrt(variance + epsilon) for each row. `mean` and `scale`: (rows), exact.
struct LayerNorm {
  static constexpr const char* kName = "weft::layer_norm";
  static constexpr const char* kSchema =
      "weft::layer_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> (Tensor y, Tensor mean, "
      "Tensor "
      "scale)";
  using Signature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(const at::Tensor& x,
                                                                   const at::Tensor& weight,
                                                                   const at::Tensor& bias, double epsilon);
};

// The gradients of x, and of weight and bias, undefined unless `wanted` has true for x and for these two.
// `residual` is added to that of x, as for RmsNormBackward.
struct LayerNormBackward {
  static constexpr const char* kName = "weft::layer_norm_backward";
  static constexpr const char* kSchema =
      "weft::layer_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor scale,"
      " Tensor? residual, bool[2] wanted)"
      " -> (Tensor dx, Tensor dweight, Tensor dbias)";
  using Signature = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
      const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& mean,
      const at::Tensor& scale, const std::optional<at::Tensor>& residual, std::array<bool, 2> wanted);
};

// The product of a gated MLP (arXiv:2002.05202): y = activation(gate) up, of one shape and type. `kind`: 0 is
// SiLU, 1 GELU by its approximation with tanh.
struct Gated {
  static constexpr const char* kName = "weft::gated";
  static constexpr const char* kSchema = "weft::gated(Tensor gate, Tensor up, int kind) -> Tensor";
  using Signature = at::Tensor(const at::Tensor& gate, const at::Tensor& up, int64_t kind);
};

// The gradients of gate and up, with the arguments of the forward.
struct GatedBackward {
  static constexpr const char* kName = "weft::gated_backward";
  static constexpr const char* kSchema =
      "weft::gated_backward(Tensor dy, Tensor gate, Tensor up, int kind) -> (Tensor dgate, Tensor dup)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& dy, const at::Tensor& gate,
                                                       const at::Tensor& up, int64_t kind);
};

// The gradient of GELU (arXiv:1606.08415) at x (rows, C), of the type of dy, and the sums of it over the
// rows, which are the gradient of a bias in x. `kind`: 0 is the exact form, 1 its approximation with tanh.
struct GeluBackward {
  static constexpr const char* kName = "weft::gelu_backward";
  static constexpr const char* kSchema =
      "weft::gelu_backward(Tensor dy, Tensor x, int kind) -> (Tensor dx, Tensor sums)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& dy, const at::Tensor& x,
                                                       int64_t kind);
};

// Rotary positions (arXiv:2104.09864) of x (B, T, H, D): turns channels i and i + R / 2 of the first R <= D
// channels of a head by the angle of the position, the other way if `back`, which is the gradient, and copies
// the channels from R on. cosine, sine: (1 or B, T, R / 2) in the type of x; their shape says what R is.
struct Rotate {
  static constexpr const char* kName = "weft::rotate";
  static constexpr const char* kSchema =
      "weft::rotate(Tensor x, Tensor cosine, Tensor sine, bool back) -> Tensor";
  using Signature = at::Tensor(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                               bool back);
};

// The sums over the rows of x (rows, C), in the type of x: (C).
struct ColumnSums {
  static constexpr const char* kName = "weft::column_sums";
  static constexpr const char* kSchema = "weft::column_sums(Tensor x) -> Tensor";
  using Signature = at::Tensor(const at::Tensor& x);
};

// Dropout: y = x mask scale, or residual + x mask scale. The mask keeps an element with the probability
// `kept`; its bits follow from the seed alone and are those of Bernoulli on every device. `seed` is a uint64
// in the bits of an int64; if `seed_tensor` is given, one int64 on the device, the kernel reads the seed from
// it instead. `mask` is what backward needs: 0 and 1 as uint8, in the shape of x, or a tensor without
// elements if backward draws the mask again.
struct Dropout {
  static constexpr const char* kName = "weft::dropout";
  static constexpr const char* kSchema =
      "weft::dropout(Tensor? residual, Tensor x, int seed, Tensor? seed_tensor, float kept, float scale)"
      " -> (Tensor y, Tensor mask)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const std::optional<at::Tensor>& residual,
                                                       const at::Tensor& x, int64_t seed,
                                                       const std::optional<at::Tensor>& seed_tensor,
                                                       double kept, double scale);
};

// dx = dy mask scale, with the arguments of the forward and what it returned as mask.
struct DropoutBackward {
  static constexpr const char* kName = "weft::dropout_backward";
  static constexpr const char* kSchema =
      "weft::dropout_backward(Tensor dy, Tensor mask, int seed, Tensor? seed_tensor, float kept, float scale)"
      " -> Tensor";
  using Signature = at::Tensor(const at::Tensor& dy, const at::Tensor& mask, int64_t seed,
                               const std::optional<at::Tensor>& seed_tensor, double kept, double scale);
};

// Fills values (uint8) with 1 with the probability `kept`, otherwise with 0 (kernels/formula/dropout.hpp).
// The seed is that of Dropout.
struct Bernoulli {
  static constexpr const char* kName = "weft::bernoulli_";
  static constexpr const char* kSchema =
      "weft::bernoulli_(Tensor(a!) values, int seed, Tensor? seed_tensor, float kept) -> ()";
  using Signature = void(at::Tensor values, int64_t seed, const std::optional<at::Tensor>& seed_tensor,
                         double kept);
};

// Cross entropy of logits (..., V) with labels (int64, one for each row), summed over the rows. The rows of
// logits and of their gradient are contiguous; on a device they may be apart, all by stride(-2). A row with a
// label from 0 to V - 1 counts; one with another label counts nothing. `sum`: exact, one element.
// `normalisers`: (rows, 2), exact, the largest logit of a row, and the logarithm of the sum of exponentials
// relative to it; those of rows that count nothing are unspecified.
struct CrossEntropy {
  static constexpr const char* kName = "weft::cross_entropy";
  static constexpr const char* kSchema =
      "weft::cross_entropy(Tensor logits, Tensor labels) -> (Tensor sum, Tensor normalisers)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& logits, const at::Tensor& labels);
};

// Writes the gradient of the logits to `result`, which may be the logits' own memory. `gradient` is that of
// the sum, one element. A row with the label INT64_MIN, whose class is elsewhere, counts too.
struct CrossEntropyBackward {
  static constexpr const char* kName = "weft::cross_entropy_backward_";
  static constexpr const char* kSchema =
      "weft::cross_entropy_backward_(Tensor gradient, Tensor logits, Tensor labels, Tensor normalisers,"
      " Tensor(a!) result) -> ()";
  using Signature = void(const at::Tensor& gradient, const at::Tensor& logits, const at::Tensor& labels,
                         const at::Tensor& normalisers, at::Tensor result);
};

// Returns the sum of CrossEntropy, and overwrites the logits with what CrossEntropyBackward returns if
// `gradient` is that of the sum.
struct CrossEntropyWithGradient {
  static constexpr const char* kName = "weft::cross_entropy_with_gradient_";
  static constexpr const char* kSchema =
      "weft::cross_entropy_with_gradient_(Tensor(a!) logits, Tensor labels, float gradient) -> Tensor";
  using Signature = at::Tensor(at::Tensor logits, const at::Tensor& labels, double gradient);
};

// Multiplies x, whose rows are those of CrossEntropy, by actual / expected, unless they are equal: then it
// takes no time. `actual`: one element.
struct Rescale {
  static constexpr const char* kName = "weft::rescale_";
  static constexpr const char* kSchema = "weft::rescale_(Tensor(a!) x, Tensor actual, float expected) -> ()";
  using Signature = void(at::Tensor x, const at::Tensor& actual, double expected);
};

// Cross entropy of a vocabulary whose classes are split over ranks. `logits` has this rank's V classes, of
// which there may be none; `labels` count from its first class, are INT64_MIN for a class of
// another rank and -1 for rows that count nothing. The engine calls parts, takes the maximum of `peaks` over
// the ranks, calls rebase, adds up `parts` over the ranks, and calls finish. peaks: (rows), the largest logit
// of each row, -infinity if there is none. parts: (2, rows), which mean nothing to others before rebase. Both
// exact.
struct CrossEntropyParts {
  static constexpr const char* kName = "weft::cross_entropy_parts";
  static constexpr const char* kSchema =
      "weft::cross_entropy_parts(Tensor logits, Tensor labels) -> (Tensor peaks, Tensor parts)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& logits, const at::Tensor& labels);
};

// Makes of `parts` the sums of exponentials and the logits of the labels, relative to `all`, the peaks over
// all ranks. `peaks` are this rank's.
struct CrossEntropyRebase {
  static constexpr const char* kName = "weft::cross_entropy_rebase_";
  static constexpr const char* kSchema =
      "weft::cross_entropy_rebase_(Tensor(a!) parts, Tensor labels, Tensor peaks, Tensor all) -> ()";
  using Signature = void(at::Tensor parts, const at::Tensor& labels, const at::Tensor& peaks,
                         const at::Tensor& all);
};

// Returns the sum and the normalisers of CrossEntropy for the whole vocabulary.
struct CrossEntropyFinish {
  static constexpr const char* kName = "weft::cross_entropy_finish";
  static constexpr const char* kSchema =
      "weft::cross_entropy_finish(Tensor parts, Tensor labels, Tensor all) -> (Tensor sum, Tensor "
      "normalisers)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& parts, const at::Tensor& labels,
                                                       const at::Tensor& all);
};

// Merges the attention `part` (B, H, T, D) to some keys into `out`, that to others, both with any strides;
// log_sum_exp and part_log_sum_exp (B, H, T) are the logarithms of their sums of exponentials, with any
// strides. out and both logarithms are exact.
struct MergeAttention {
  static constexpr const char* kName = "weft::merge_attention_";
  static constexpr const char* kSchema =
      "weft::merge_attention_(Tensor(a!) out, Tensor(b!) log_sum_exp, Tensor part, Tensor part_log_sum_exp)"
      " -> ()";
  using Signature = void(at::Tensor out, at::Tensor log_sum_exp, const at::Tensor& part,
                         const at::Tensor& part_log_sum_exp);
};

}  // namespace weft::operators

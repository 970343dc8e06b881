// The torch operators that the engine calls by the device of their tensors, as profilers name them:
// weft::.... This header is the one place of their schemas. The engine has an implementation of each for host
// memory. The library of a device implements those for which it has kernels, with implement(); the engine
// asks the dispatcher before each call, and where there is none it uses operations of libtorch or, if it has
// none either, refuses with an error that names the device.
//
// Rules for all operators:
// - Tensors are contiguous and on one device unless a comment says otherwise. Nothing is checked twice: the
//   engine passes what the comments say.
// - Half precision is computed in fp32. Tensors in fp64 are passed only where a comment says so, and in host
//   memory to every operator. `exact` stands for fp64 for fp64 and for fp32 otherwise.
// - An implementation gives its work to the current stream and returns. It makes the host wait for nothing.
// - Results have the same bits in each run.
// - None is differentiable: the engine's autograd functions call them.
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

// The gradients of x and of the weight, each undefined unless `wanted` has true for it.
struct RmsNormBackward {
  static constexpr const char* kName = "weft::rms_norm_backward";
  static constexpr const char* kSchema =
      "weft::rms_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor scale, bool[2] wanted)"
      " -> (Tensor dx, Tensor dweight)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const at::Tensor& dy, const at::Tensor& x,
                                                       const at::Tensor& weight, const at::Tensor& scale,
                                                       std::array<bool, 2> wanted);
};

// Dropout: y = x mask scale, or residual + x mask scale. The mask keeps an element with the probability
// `kept`; its bits follow from the seed alone and are those of Bernoulli on every device. `seed` is a uint64
// in the bits of an int64. `mask` is what backward needs: 0 and 1 as uint8, in the shape of x, or a tensor
// without elements if backward draws the mask again.
struct Dropout {
  static constexpr const char* kName = "weft::dropout";
  static constexpr const char* kSchema =
      "weft::dropout(Tensor? residual, Tensor x, int seed, float kept, float scale) -> (Tensor y, Tensor "
      "mask)";
  using Signature = std::tuple<at::Tensor, at::Tensor>(const std::optional<at::Tensor>& residual,
                                                       const at::Tensor& x, int64_t seed, double kept,
                                                       double scale);
};

// dx = dy mask scale, with the arguments of the forward and what it returned as mask.
struct DropoutBackward {
  static constexpr const char* kName = "weft::dropout_backward";
  static constexpr const char* kSchema =
      "weft::dropout_backward(Tensor dy, Tensor mask, int seed, float kept, float scale) -> Tensor";
  using Signature = at::Tensor(const at::Tensor& dy, const at::Tensor& mask, int64_t seed, double kept,
                               double scale);
};

// Fills values (uint8) with 1 with the probability `kept`, otherwise with 0 (kernels/formula/dropout.hpp).
struct Bernoulli {
  static constexpr const char* kName = "weft::bernoulli_";
  static constexpr const char* kSchema = "weft::bernoulli_(Tensor(a!) values, int seed, float kept) -> ()";
  using Signature = void(at::Tensor values, int64_t seed, double kept);
};

// Cross entropy of logits (..., V) with labels (int64, one for each row), summed over the rows. A row with a
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

// The operators below take lists of flat ranges: of values, and element by element their gradients and
// states. A list has at least one range; a range may be empty. `factor` multiplies every gradient first; the
// gradients may be left multiplied or as they were. All take fp32 and fp64 on every device.

// Returns the sum of |g|^p over all elements of the ranges, of any floating-point types, or the largest |g|
// if p is infinite: one element in fp64, infinite if an element is not finite.
struct NormPart {
  static constexpr const char* kName = "weft::norm_part";
  static constexpr const char* kSchema = "weft::norm_part(Tensor[] gradients, float p) -> Tensor";
  using Signature = at::Tensor(at::TensorList gradients, double p);
};

// Returns the sum of the squares of each range, in fp64: (number of ranges).
struct SumsOfSquares {
  static constexpr const char* kName = "weft::sums_of_squares";
  static constexpr const char* kSchema = "weft::sums_of_squares(Tensor[] ranges) -> Tensor";
  using Signature = at::Tensor(at::TensorList ranges);
};

// Adam (arXiv:1412.6980), or AdamW (arXiv:1711.05101) if `decoupled`. `step` counts this update from 1;
// infinity leaves out the correction of the bias.
struct Adam {
  static constexpr const char* kName = "weft::adam_";
  static constexpr const char* kSchema =
      "weft::adam_(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] averages, Tensor(d!)[] squares,"
      " float step, float lr, float beta1, float beta2, float eps, float weight_decay, bool decoupled,"
      " float factor) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList averages,
                         at::TensorList squares, double step, double lr, double beta1, double beta2,
                         double eps, double weight_decay, bool decoupled, double factor);
};

// SGD as PyTorch's. `momenta` is empty without momentum. `first`: the momenta have no values yet.
struct Sgd {
  static constexpr const char* kName = "weft::sgd_";
  static constexpr const char* kSchema =
      "weft::sgd_(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] momenta, float lr, float "
      "momentum,"
      " float dampening, float weight_decay, bool nesterov, bool first, float factor) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList momenta, double lr,
                         double momentum, double dampening, double weight_decay, bool nesterov, bool first,
                         double factor);
};

// Lion (arXiv:2302.06675), Algorithm 2.
struct Lion {
  static constexpr const char* kName = "weft::lion_";
  static constexpr const char* kSchema =
      "weft::lion_(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] momenta, float lr, float beta1,"
      " float beta2, float weight_decay, float factor) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList momenta, double lr,
                         double beta1, double beta2, double weight_decay, double factor);
};

// LARS (arXiv:1708.03888): v = momentum v + rate (g + weight_decay w), w -= v, with a rate for each range.
// `momenta` is empty without momentum.
struct Lars {
  static constexpr const char* kName = "weft::lars_";
  static constexpr const char* kSchema =
      "weft::lars_(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] momenta, float[] rates,"
      " float momentum, float weight_decay, float factor) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList momenta,
                         at::ArrayRef<double> rates, double momentum, double weight_decay, double factor);
};

// LAMB (arXiv:1904.00962), Algorithm 2, with the direction
//   u = (m / correction1) / (sqrt(v / correction2) + eps) + weight_decay w.
// Updates the moments, and returns the sums of the squares of w and of u over the elements [begin, begin +
// count) of each range: (number of ranges, 2) in fp64. `counted` has begin and count of each range.
struct LambMoments {
  static constexpr const char* kName = "weft::lamb_moments_";
  static constexpr const char* kSchema =
      "weft::lamb_moments_(Tensor[] values, Tensor(a!)[] gradients, Tensor(b!)[] averages, Tensor(c!)[] "
      "squares,"
      " int[] counted, float beta1, float beta2, float eps, float weight_decay, float correction1,"
      " float correction2, float factor) -> Tensor";
  using Signature = at::Tensor(at::TensorList values, at::TensorList gradients, at::TensorList averages,
                               at::TensorList squares, at::IntArrayRef counted, double beta1, double beta2,
                               double eps, double weight_decay, double correction1, double correction2,
                               double factor);
};

// w -= rate u, with a rate for each range.
struct LambStep {
  static constexpr const char* kName = "weft::lamb_step_";
  static constexpr const char* kSchema =
      "weft::lamb_step_(Tensor(a!)[] values, Tensor[] averages, Tensor[] squares, float[] rates, float eps,"
      " float weight_decay, float correction1, float correction2) -> ()";
  using Signature = void(at::TensorList values, at::TensorList averages, at::TensorList squares,
                         at::ArrayRef<double> rates, double eps, double weight_decay, double correction1,
                         double correction2);
};

// Calls visit(Operator()) for every operator of this header.
template <class Visit>
void for_each(const Visit& visit) {
  visit(RmsNorm());
  visit(RmsNormBackward());
  visit(Dropout());
  visit(DropoutBackward());
  visit(Bernoulli());
  visit(CrossEntropy());
  visit(CrossEntropyBackward());
  visit(CrossEntropyParts());
  visit(CrossEntropyRebase());
  visit(CrossEntropyFinish());
  visit(MergeAttention());
  visit(NormPart());
  visit(SumsOfSquares());
  visit(Adam());
  visit(Sgd());
  visit(Lion());
  visit(Lars());
  visit(LambMoments());
  visit(LambStep());
}

// Registers `function` with `library`, a torch::Library of the namespace weft and a dispatch key:
//   TORCH_LIBRARY_IMPL(weft, MyDevice, library) { implement<RmsNorm>(library, rms_norm); }
template <class Operator, class Library>
void implement(Library& library, typename Operator::Signature* function) {
  library.impl(Operator::kName, function);
}

}  // namespace weft::operators

// The operators of optimizers, by the rules of device_operators.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace weft::operators {

// The operators below take lists of flat ranges: of values, and element by element their gradients and
// states. A list has at least one range; a range may be empty. `factor` multiplies every gradient first; the
// gradients may be left multiplied or as they were. `decision`, if there is one, is a result of Decide: its
// factor replaces `factor`, and if it skips the update, values and states stay as they are. All take fp32
// and fp64 on every device; for values in fp32 Adam and SGD also take gradients in half precision, all of one
// type, and fill `working`, which has a range in half precision for each of the values, or none, with the new
// values rounded to nearest even.

// Returns the sum of |g|^p over all elements of the ranges, of any floating-point types, or the largest |g|
// if p is infinite: one element in fp64, infinite if an element is not finite.
struct NormPart {
  static constexpr const char* kName = "weft::norm_part";
  static constexpr const char* kSchema = "weft::norm_part(Tensor[] gradients, float p) -> Tensor";
  using Signature = at::Tensor(at::TensorList gradients, double p);
};

// Returns the norm of the gradients, the factor of every gradient, and 1 if the update is skipped, otherwise
// 0, by kernels/formula/decision.hpp: (3) in fp64. `norm_part`: one element in fp64, as NormPart returns it,
// combined over all ranks.
struct Decide {
  static constexpr const char* kName = "weft::decide";
  static constexpr const char* kSchema =
      "weft::decide(Tensor norm_part, float p, float max_norm, float clip, float loss_scale, bool skips) -> "
      "Tensor";
  using Signature = at::Tensor(const at::Tensor& norm_part, double p, double max_norm, double clip,
                               double loss_scale, bool skips);
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
      " Tensor(e!)[] working, float step, float lr, float beta1, float beta2, float eps, float weight_decay, "
      "bool decoupled,"
      " float factor, Tensor? decision) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList averages,
                         at::TensorList squares, at::TensorList working, double step, double lr, double beta1,
                         double beta2, double eps, double weight_decay, bool decoupled, double factor,
                         const std::optional<at::Tensor>& decision);
};

// SGD as PyTorch's. `momenta` is empty without momentum. `first`: the momenta have no values yet.
struct Sgd {
  static constexpr const char* kName = "weft::sgd_";
  static constexpr const char* kSchema =
      "weft::sgd_(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] momenta, Tensor(d!)[] working,"
      " float lr, float momentum, float dampening, float weight_decay, bool nesterov, bool first, float "
      "factor, Tensor? decision) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList momenta,
                         at::TensorList working, double lr, double momentum, double dampening,
                         double weight_decay, bool nesterov, bool first, double factor,
                         const std::optional<at::Tensor>& decision);
};

// Lion (arXiv:2302.06675), Algorithm 2.
struct Lion {
  static constexpr const char* kName = "weft::lion_";
  static constexpr const char* kSchema =
      "weft::lion_(Tensor(a!)[] values, Tensor(b!)[] gradients, Tensor(c!)[] momenta, float lr, float beta1,"
      " float beta2, float weight_decay, float factor, Tensor? decision) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList momenta, double lr,
                         double beta1, double beta2, double weight_decay, double factor,
                         const std::optional<at::Tensor>& decision);
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

// Adafactor (arXiv:1804.04235) and CAME (arXiv:2307.02047), whose second moment of a tensor (..., rows,
// columns) is factored into one number for each row and one for each column. A range is a contiguous part of
// such a tensor: the elements [begin, begin + its length) of the flattened tensor. Its direction is
//   u = row_factor gradient column_factor.
// `places` has five numbers for each range: begin; rows and columns, at least 1; and begin and count of those
// elements of the range that this rank counts in sums. `row_factors` has a factor for each row that the range
// has elements of, and `column_factors` one for each column of each matrix that it has elements of, in the
// order of memory.

// Returns, for each range, the sums of its rows and then those of its columns, as many as there are factors,
// one after the other in fp64: sums of (rate u - average)^2 or, where the other lists are empty, of the
// squares of the gradients.
struct FactoredSums {
  static constexpr const char* kName = "weft::factored_sums";
  static constexpr const char* kSchema =
      "weft::factored_sums(Tensor[] gradients, Tensor[] averages, Tensor[] row_factors, Tensor[] "
      "column_factors, int[] places, float[] rates) -> Tensor";
  using Signature = at::Tensor(at::TensorList gradients, at::TensorList averages, at::TensorList row_factors,
                               at::TensorList column_factors, at::IntArrayRef places,
                               at::ArrayRef<double> rates);
};

// Returns the sum of u^2 of each range, in fp64: (number of ranges).
struct FactoredNorms {
  static constexpr const char* kName = "weft::factored_norms";
  static constexpr const char* kSchema =
      "weft::factored_norms(Tensor[] gradients, Tensor[] row_factors, Tensor[] column_factors, int[] places) "
      "-> Tensor";
  using Signature = at::Tensor(at::TensorList gradients, at::TensorList row_factors,
                               at::TensorList column_factors, at::IntArrayRef places);
};

// m = beta m + (1 - beta) rate u, with a rate for each range.
struct FactoredAverage {
  static constexpr const char* kName = "weft::factored_average_";
  static constexpr const char* kSchema =
      "weft::factored_average_(Tensor(a!)[] averages, Tensor[] gradients, Tensor[] row_factors, Tensor[] "
      "column_factors, int[] places, float[] rates, float beta) -> ()";
  using Signature = void(at::TensorList averages, at::TensorList gradients, at::TensorList row_factors,
                         at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                         double beta);
};

// w = keep w - rate u, with `keep` and `rate` for each range.
struct FactoredStep {
  static constexpr const char* kName = "weft::factored_step_";
  static constexpr const char* kSchema =
      "weft::factored_step_(Tensor(a!)[] values, Tensor[] gradients, Tensor[] row_factors, Tensor[] "
      "column_factors, int[] places, float[] rates, float[] keep) -> ()";
  using Signature = void(at::TensorList values, at::TensorList gradients, at::TensorList row_factors,
                         at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                         at::ArrayRef<double> keep);
};

}  // namespace weft::operators

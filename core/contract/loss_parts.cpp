#include "contract/loss_parts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "contract/tensors.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"
#include "failure.hpp"
#include "weft/nn/batch_fields.hpp"

namespace weft::contract {

namespace {

constexpr double kStep = 1e-5;  // of the differences
constexpr double kSums = 1e-9, kDerivative = 1e-5, kHalf = 1e-4;
constexpr int64_t kRepeats = 64;

using Terms = std::vector<nn::LossTerm>;

// Returns the outputs as tensors that backward ends at.
State with_gradients(const State& outputs) {
  State leaves;
  for (const auto& [name, tensor] : outputs)
    leaves.set(name, tensor.is_floating_point() ? tensor.detach().clone().set_requires_grad(true) : tensor);
  return leaves;
}

double value_of(const at::Tensor& sum) {
  return device::value_of<double>(sum.detach().to(at::kDouble));
}

// Returns the terms without gradients.
std::vector<double> sums_of(const LossTrial& trial, const State& outputs, const Batch& batch) {
  const at::NoGradGuard no_grad;
  std::vector<double> sums;
  for (const nn::LossTerm& term : trial.loss.terms(outputs, batch, trial.loss.counts(batch)))
    sums.push_back(value_of(term.sum));
  return sums;
}

// Returns the sum of all terms, with a weight for each so that none stands for another.
at::Tensor total_of(const Terms& terms) {
  at::Tensor total;
  double weight = 1;
  for (const nn::LossTerm& term : terms) {
    const at::Tensor part = term.sum.to(at::kDouble) * (weight *= 0.75);
    total = total.defined() ? total + part : part;
  }
  return total;
}

// Returns the gradients of the outputs, zeros where there is none.
State gradients_of(const LossTrial& trial, const State& leaves, const Batch& batch) {
  total_of(trial.loss.terms(leaves, batch, trial.loss.counts(batch))).backward();
  State gradients;
  for (const auto& [name, tensor] : leaves)
    if (tensor.requires_grad())
      gradients.set(name, tensor.grad().defined() ? tensor.grad() : tensor.detach() * 0);
  return gradients;
}

// Returns samples [begin, end) of every field that has a row for each.
template <class Fields>
Fields rows_of(const Fields& whole, int64_t samples, int64_t begin, int64_t end) {
  Fields part = whole;
  for (auto& [name, tensor] : part)
    if (tensor.dim() > 0 && tensor.size(0) == samples) tensor = tensor.narrow(0, begin, end - begin);
  return part;
}

void check_counts(const LossTrial& trial, Findings& findings) {
  const std::vector<nn::LossCount> counts = trial.loss.counts(trial.batch),
                                   again = trial.loss.counts(trial.batch);
  std::string problem;
  for (size_t t = 0; t < counts.size() && problem.empty(); ++t)
    if (again.size() != counts.size() || again[t].count != counts[t].count)
      problem = fmt::format("\"{}\" has other numbers when it is asked again", counts[t].name);
  findings.look("counts depend on the batch alone", problem);
}

void check_terms(const LossTrial& trial, Findings& findings) {
  const char* const rule = "terms are sums with gradients, and nothing changes in place";
  State first, second;
  try {
    first = gradients_of(trial, with_gradients(trial.outputs), trial.batch);
    second = gradients_of(trial, with_gradients(trial.outputs), trial.batch);
    findings.look(rule, "");
  } catch (const std::exception& exception) {
    return findings.look(rule, describe(exception).text);
  }
  std::string problem;
  if (sums_of(trial, trial.outputs, trial.batch) != sums_of(trial, trial.outputs, trial.batch))
    problem = "its value is another";
  for (const auto& [name, gradient] : first)
    if (!at::equal(gradient, second.at(name)))
      problem = fmt::format("the gradient of \"{}\" is another", name);
  findings.look("the same outputs and labels have the same loss", problem);
}

void check_finite(const LossTrial& trial, Findings& findings) {
  std::string problem;
  for (const double sum : sums_of(trial, trial.outputs, trial.batch))
    if (!std::isfinite(sum)) problem = fmt::format("a term is {}", sum);
  findings.look("the loss is finite", problem);
}

void check_derivatives(const LossTrial& trial, Findings& findings) {
  const State gradients = gradients_of(trial, with_gradients(trial.outputs), trial.batch);
  const at::Generator generator = device::host_generator(13);
  const auto total_at = [&](const std::string& name, const at::Tensor& values) {
    State moved = trial.outputs;
    moved.set(name, values);
    const at::NoGradGuard no_grad;
    return value_of(total_of(trial.loss.terms(moved, trial.batch, trial.loss.counts(trial.batch))));
  };
  std::string problem;
  double all = 0;
  for (const auto& [name, gradient] : gradients) {
    const at::Tensor& values = trial.outputs.at(name);
    const at::Tensor direction = at::randn(gradient.sizes(), generator, gradient.options());
    const double expected = value_of((gradient * direction).sum());
    const double found =
        (total_at(name, values + kStep * direction) - total_at(name, values - kStep * direction)) /
        (2 * kStep);
    all += value_of(gradient.abs().sum());
    if (!(std::abs(found - expected) <= kDerivative * (std::abs(found) + std::abs(expected)) + 1e-7))
      problem = fmt::format(
          "along a random direction of \"{}\" the loss changes by {:.6g}, but the gradient says {:.6g}", name,
          found, expected);
  }
  if (problem.empty() && all == 0) problem = "the gradients of all outputs are 0";
  findings.look("gradients are the derivatives of the terms", problem);
}

// The host divides sums by counts over micro-batches and ranks. So those of parts must add up.
void check_parts(const LossTrial& trial, Findings& findings) {
  const int64_t samples = trial.batch.samples(), border = 1;
  std::string problem;
  const std::vector<nn::LossCount> counts = trial.loss.counts(trial.batch);
  const std::vector<double> whole = sums_of(trial, trial.outputs, trial.batch);
  if (samples < 2) return;
  std::vector<double> sums(whole.size()), numbers(whole.size());
  for (const auto& [begin, end] : {std::pair(int64_t{0}, border), std::pair(border, samples)}) {
    const Batch batch = rows_of(trial.batch, samples, begin, end);
    const std::vector<nn::LossCount> of_part = trial.loss.counts(batch);
    const std::vector<double> parts = sums_of(trial, rows_of(trial.outputs, samples, begin, end), batch);
    for (size_t t = 0; t < std::min(sums.size(), parts.size()); ++t) {
      sums[t] += parts[t];
      numbers[t] += of_part[t].count;
    }
  }
  for (size_t t = 0; t < sums.size(); ++t) {
    const auto differs = [&](double found, double expected) {
      return !(std::abs(found - expected) <= kSums * (1 + std::abs(expected)));
    };
    if (differs(numbers[t], counts[t].count))
      problem = fmt::format("\"{}\" has {} labels in a batch, but {} in its two parts", counts[t].name,
                            counts[t].count, numbers[t]);
    else if (differs(sums[t], whole[t]))
      problem = fmt::format(
          "\"{}\" is {:.9g} for a batch, but {:.9g} for its two parts; it must be a sum, not a mean",
          counts[t].name, whole[t], sums[t]);
  }
  findings.look("terms and counts are sums over samples", problem);
}

void check_without_labels(const LossTrial& trial, Findings& findings) {
  const char* const rule = "samples without a label that counts add 0";
  Batch none = trial.batch;
  for (auto& [name, tensor] : none)
    if (is_label(name, tensor)) tensor = at::full_like(tensor, nn::kIgnored);
  const std::vector<nn::LossCount> counts = trial.loss.counts(none);
  const bool counts_any =
      std::any_of(counts.begin(), counts.end(), [](const auto& term) { return term.count > 0; });
  if (counts.empty() || counts_any) return;  // it does not take -100 as no label
  std::string problem;
  for (const double sum : sums_of(trial, trial.outputs, none))
    if (sum != 0) problem = fmt::format("a term is {} where all labels are {}", sum, nn::kIgnored);
  if (problem.empty())
    for (const auto& [name, gradient] : gradients_of(trial, with_gradients(trial.outputs), none))
      if (device::value_of<double>(gradient.abs().sum()) != 0)
        problem = fmt::format("the gradient of \"{}\" is not 0 where all labels are {}", name, nn::kIgnored);
  findings.look(rule, problem);
}

// Rounds outputs to bf16, and compares what the loss makes of them in bf16 and in fp64.
void check_half(const LossTrial& trial, Findings& findings) {
  const int64_t samples = trial.batch.samples();
  const auto repeated = [&](auto fields) {
    for (auto& [name, tensor] : fields)
      if (tensor.dim() > 0 && tensor.size(0) == samples) {
        std::vector<int64_t> times(static_cast<size_t>(tensor.dim()), 1);
        times[0] = kRepeats;
        tensor = tensor.repeat(times);
      }
    return fields;
  };
  const Batch batch = repeated(trial.batch);
  std::string problem;
  for (const double factor : {1.0, 0.8, 0.6, 0.4}) {
    State half = repeated(trial.outputs), exact = half;
    for (auto& [name, tensor] : half)
      if (tensor.is_floating_point()) {
        tensor = (tensor * factor).to(at::kBFloat16);
        exact.set(name, tensor.to(at::kDouble));
      }
    const std::vector<double> found = sums_of(trial, half, batch), expected = sums_of(trial, exact, batch);
    for (size_t t = 0; t < found.size(); ++t)
      if (!(std::abs(found[t] - expected[t]) <= kHalf * (1 + std::abs(expected[t]))))
        problem = fmt::format(
            "a term is {:.6g} for outputs in bf16, but {:.6g} for the same values in fp64; convert "
            "them to fp32 first",
            found[t], expected[t]);
  }
  findings.look("outputs in half precision are summed in fp32", problem);
}

// Returns what is wrong with what the loss says of a batch that it cannot use; "" if it says the field.
std::string wrong_refusal(const LossTrial& trial, const Batch& batch, const std::string& field,
                          bool may_take) {
  try {
    const std::vector<nn::LossCount> counts = trial.loss.counts(batch);
    if (counts.empty()) return "";
    trial.loss.terms(with_gradients(trial.outputs), batch, counts);
    return may_take ? "" : "it was taken";
  } catch (const Error& error) {
    const bool says = std::string_view(error.what()).find(field) != std::string_view::npos;
    const bool is_refusal = error.status() == WEFT_INVALID_ARGUMENT || error.status() == WEFT_NOT_FOUND;
    if (says && is_refusal) return "";
    return fmt::format("the error must be INVALID_ARGUMENT and name the field, was: {}",
                       describe(error).text);
  }
}

void check_refusals(const LossTrial& trial, Findings& findings) {
  for (const auto& [name, tensor] : trial.batch) {
    Batch without = trial.batch;
    without.erase(name);
    const std::string problem = wrong_refusal(trial, without, name, /*may_take=*/true);
    findings.look("a field that is missing is named",
                  problem.empty() ? "" : fmt::format("without \"{}\": {}", name, problem));
    if (!is_label(name, tensor) || tensor.dim() < 2) continue;
    Batch shorter = trial.batch;
    shorter.set(name, tensor.narrow(-1, 0, tensor.size(-1) - 1).contiguous());
    const std::string taken = wrong_refusal(trial, shorter, name, /*may_take=*/false);
    findings.look(
        "labels of another shape are refused",
        taken.empty() ? "" : fmt::format("\"{}\" with one label less in each row: {}", name, taken));
  }
}

}  // namespace

bool is_label(const std::string& name, const at::Tensor& tensor) {
  return name.find("label") != std::string::npos && tensor.defined() &&
         at::isIntegralType(tensor.scalar_type(), false);
}

void check_loss_parts(const LossTrial& trial, Findings& findings) {
  check_counts(trial, findings);
  check_terms(trial, findings);
  if (findings.failed()) return;
  check_finite(trial, findings);
  check_derivatives(trial, findings);
  check_parts(trial, findings);
  check_without_labels(trial, findings);
  check_half(trial, findings);
  check_refusals(trial, findings);
}

}  // namespace weft::contract

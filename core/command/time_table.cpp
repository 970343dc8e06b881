#include "command/time_table.hpp"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "apply/describe_model.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "training/bindings.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::command {

namespace {

using trace::Phase;

constexpr std::pair<Phase, const char*> kRows[] = {
    {Phase::kForward, "forward"},
    {Phase::kBackward, "backward"},
    {Phase::kOptimizer, "optimizer"},
    {Phase::kCommunication, "waiting for communication"},
    {Phase::kDevice, "waiting for the device"},
    {Phase::kData, "data"},
    {Phase::kSaving, "saving"},
    {Phase::kOther, "other"},
};

// Returns what a language model computes for each token. Nothing for other classes, whose heads do not see
// every position, and if some parameters are frozen and need no gradient.
std::optional<plan::Products> products_of(nn::Model& model) {
  if (model.perplexity_term().empty()) return std::nullopt;
  for (const auto& item : model.named_parameters(/*recurse=*/true))
    if (model.frozen(item.key()) || !item.value().requires_grad()) return std::nullopt;
  return plan::count_products(plan::describe_model(model));
}

// Reads --peak-tflops.
double tflops_of(const std::string& text) {
  size_t end = 0;
  double tflops = 0;
  try {
    tflops = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end == 0 || end != text.size() || !std::isfinite(tflops) || tflops <= 0)
    fail(
        WEFT_INVALID_ARGUMENT,
        "--peak-tflops is \"{}\", must be a number above 0, the TFLOP/s of one rank's device, or \"measure\"",
        printable(text));
  return tflops;
}

// Returns the sums over all ranks.
template <size_t Count>
std::array<double, Count> sums_over_ranks(const World& world, const std::array<double, Count>& own) {
  const at::Tensor sums = at::tensor(std::vector<double>(own.begin(), own.end()), at::kDouble);
  world.communicator().all_reduce(sums, ReduceOp::kSum, true).wait();
  const std::vector<double> all = device::values_of<double>(sums);
  std::array<double, Count> result;
  std::copy(all.begin(), all.end(), result.begin());
  return result;
}

constexpr int64_t kSide = 2048;

// Returns the TFLOP/s of matrix products in `dtype`, the mean over the ranks. They compute at the same time,
// because ranks of one host share its cores.
double measured_tflops(const World& world, at::ScalarType dtype) {
  constexpr int kTimes = 3;
  const at::Tensor factor = at::ones({kSide, kSide}, device::current().options(dtype));
  const auto multiply = [&] {
    const trace::Time begin = trace::now();
    device::value_of<double>(at::mm(factor, factor).select(0, 0).select(0, 0));
    return trace::seconds(trace::now() - begin);
  };
  multiply();  // the first one also loads what it needs
  world.block_all();
  double shortest = multiply();
  for (int i = 1; i < kTimes; ++i) shortest = std::min(shortest, multiply());
  const double own = 2 * std::pow(static_cast<double>(kSide), 3) / shortest / 1e12;
  return sums_over_ranks<1>(world, {own})[0] / world.size();
}

}  // namespace

TimeTable::TimeTable(const Model& model, const std::string& peak, const World& world)
    : model_(model), products_(products_of(model.module())), world_(world) {
  if (peak.empty()) return;
  measures_peak_ = peak == "measure";
  if (!measures_peak_) peak_tflops_ = tflops_of(peak);
  if (!products_)
    fail(WEFT_INVALID_ARGUMENT,
         "--peak-tflops is {}, but how many operations a token of {} takes is known only of language models "
         "with one sequence, linear layers and attention, all of whose parameters are trained; leave it out",
         peak, model.architecture());
}

void TimeTable::begin(Trainer& /*trainer*/) {
  begin_ = trace::PhaseClock::of_thread().times();
}

void TimeTable::after_step(Trainer& trainer) {
  const StepResult& result = trainer.result();
  const int64_t tokens = std::llround(result.tokens_per_second * result.seconds);
  const Batch& batch = trainer.batch();
  const std::vector<nn::SequenceLength> lengths = model_.module().lengths(batch);
  if (batch.has(nn::kAttentionMask) && !batch.empty) {
    const at::Tensor& mask = batch.at(nn::kAttentionMask);
    positions_ += static_cast<double>(mask.numel());
    padding_ += static_cast<double>(mask.numel()) - device::value_of<double>(mask.to(at::kDouble).sum());
  }
  ++steps_;
  tokens_ += tokens;
  if (lengths.empty()) return;
  unit_ = "tokens";
  // Layers that add to the loss choose which tokens they see.
  if (lengths.size() != 1 || result.auxiliary_loss) products_.reset();
  if (products_)
    operations_ += static_cast<double>(tokens) * operations_per_token(*products_, lengths[0].positions);
}

void TimeTable::before_evaluation(Trainer& /*trainer*/) {
  evaluation_begin_ = trace::PhaseClock::of_thread().times();
}

void TimeTable::after_evaluation(Trainer& /*trainer*/) {
  const trace::PhaseTimes end = trace::PhaseClock::of_thread().times();
  for (size_t i = 0; i < end.size(); ++i) evaluated_[i] += end[i] - evaluation_begin_[i];
}

std::string TimeTable::use_of_peak(double seconds, const Bindings& bindings) const {
  const double tflops = operations_ / seconds / world_.size() / 1e12;
  const std::string rank = world_.size() == 1 ? "" : " on each rank";
  std::string text = fmt::format("{:.3g} TFLOP/s{} by the formula of the model", tflops, rank);
  if (peak_tflops_)
    text += fmt::format(", {:.1f} % of the given peak of {:g}", 100 * tflops / *peak_tflops_, *peak_tflops_);
  if (!measures_peak_) return text;
  const at::ScalarType dtype = bindings.options().host.autocast.value_or(bindings.dtype());
  const double measured = measured_tflops(world_, dtype);
  return text + fmt::format(", {:.1f} % of the {:.3g} of a measured product of {}^3 in {}",
                            100 * tflops / measured, measured, kSide, c10::toString(dtype));
}

void TimeTable::print(const Bindings& bindings) const {
  if (steps_ == 0) return;
  const trace::PhaseTimes end = trace::PhaseClock::of_thread().times();
  std::array<double, trace::kPhases> times;
  double evaluation = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    times[i] = trace::seconds(end[i] - begin_[i] - evaluated_[i]);
    evaluation += trace::seconds(evaluated_[i]);
  }
  times = sums_over_ranks(world_, times);
  for (double& time : times) time /= world_.size();
  const std::array<double, 3> sums = sums_over_ranks<3>(world_, {evaluation, padding_, positions_});
  evaluation = sums[0] / world_.size();
  const double total = std::accumulate(times.begin(), times.end(), 0.0),
               trained = total - times[static_cast<size_t>(Phase::kSaving)];
  std::string text =
      fmt::format("{} {} in {} step{} and {:.2f} s, {:.1f} {}/s without saving", tokens_, unit_, steps_,
                  steps_ == 1 ? "" : "s", total, static_cast<double>(tokens_) / trained, unit_);
  if (world_.size() > 1) text += "; mean over the ranks:";
  for (const auto& [phase, name] : kRows)
    if (const double time = times[static_cast<size_t>(phase)]; time > 0)
      text += fmt::format("\n  {:<25} {:>10.3f} s {:>6.1f} %", name, time, 100 * time / total);
  if (evaluation > 0) text += fmt::format("\n  {:<25} {:>10.3f} s beside these", "evaluation", evaluation);
  if (sums[1] > 0) text += fmt::format("\n  {:.1f} % of the positions are padding", 100 * sums[1] / sums[2]);
  if (products_) text += "\n  " + use_of_peak(trained, bindings);
  world_.print_on_master(text);
}

}  // namespace weft::command

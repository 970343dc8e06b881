#include "training/step_check.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "axes/axis_sets.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"

namespace weft {

namespace {

// The largest error, relative to the root of the sum of the ranks' squared 2-norms. Half precision rounds by
// 0.4 %; a sum that lacks ranks, is taken twice or averaged is off by far more.
constexpr double kTolerance = 0.05;

std::vector<double> summed(const Communicator& ranks, const std::vector<double>& values) {
  const at::Tensor sums = at::tensor(values, at::kDouble);
  ranks.all_reduce(sums, ReduceOp::kSum, true).wait();
  return device::values_of<double>(sums);
}

}  // namespace

StepCheck::StepCheck(Bindings& bindings)
    : bindings_(bindings), seen_(bindings.params().size()), gradients_(bindings.params().size()) {
  published_ = known_parts(bindings_, [](const Shard& shard, KnownPart& part) {
    part.digest += digest_of(shard.value, shard.begin, shard.param->tensor.scalar_type());
  });
  for (weft_param* param : bindings_.own_params())
    if (!param->frozen && param->tensor.requires_grad()) watch(*param);
}

StepCheck::~StepCheck() {
  for (const auto& [param, hook] : hooks_) param->tensor.remove_hook(hook);
}

void StepCheck::watch(weft_param& param) {
  Sketch* const sketch = &gradients_[param.index];
  hooks_.emplace_back(&param, param.tensor.register_hook([sketch](const at::Tensor& gradient) {
    if (gradient.defined()) add_to_sketch(gradient, 0, *sketch);
  }));
}

void StepCheck::see(const weft_unit& unit) {
  for (const weft_param* param : unit.params) {
    if (seen_[param->index]) continue;
    seen_[param->index] = true;
    const KnownPart& published = published_[param->index];
    if (!published.is_whole(*param) || param->tensor.numel() != param->count()) continue;
    if (digest_of(param->tensor, 0, param->tensor.scalar_type()) != published.digest && problem_.empty())
      problem_ = fmt::format(
          "{}: the layers compute with other values of {} than the strategy publishes; publish the tensors "
          "from which values_changed makes the layers' values",
          bindings_.strategy_name(), param->name);
  }
}

Axes StepCheck::summed_axes(const weft_param& param) const {
  return without(param.gradient_axes, bindings_.local_axes());
}

// Sums the sketches of what backward gave each rank over the ranks that share the gradient. Ranks of other
// stages, which ran other units, add nothing. Collective.
std::vector<Sketch> StepCheck::sum_local_gradients() {
  std::map<Axes, std::vector<size_t>> by_axes;
  for (const auto& param : bindings_.params())
    by_axes[common(bindings_.mesh().open_axes(), joined(summed_axes(*param), Mesh::stages()))].push_back(
        param->index);
  std::vector<Sketch> total(gradients_.size());
  for (const auto& [axes, params] : by_axes) {
    std::vector<double> numbers;
    for (const size_t p : params) {
      numbers.insert(numbers.end(), gradients_[p].projections.begin(), gradients_[p].projections.end());
      numbers.push_back(gradients_[p].square);
    }
    const std::vector<double> sums = summed(bindings_.comm(axes)->communicator, numbers);
    const double* sum = sums.data();
    for (const size_t p : params) {
      std::copy(sum, sum + kSketches, total[p].projections.begin());
      total[p].square = sum[kSketches];
      sum += kSketches + 1;
    }
  }
  return total;
}

void StepCheck::compare_gradient(const weft_param& param, const Sketch& published, const Sketch& expected) {
  std::array<double, kSketches> difference;
  double product = 0;
  for (int s = 0; s < kSketches; ++s) {
    difference[s] = published.projections[s] - expected.projections[s];
    product += published.projections[s] * expected.projections[s] / kSketches;
  }
  const double error = std::sqrt(mean_square(difference)), scale = std::sqrt(expected.square);
  if (!std::isfinite(error) || !std::isfinite(scale)) return;  // an overflow, which loss scaling handles
  if (error <= kTolerance * scale || !problem_.empty()) return;
  const double square = mean_square(expected.projections);
  const std::string found =
      square > 0 ? fmt::format("about {:.2f} of it", product / square) : "that sum is zero";
  const uint32_t ranks = bindings_.mesh().place(summed_axes(param)).size;
  problem_ = ranks == 1 && bindings_.local_axes() != 0
                 ? fmt::format(
                       "{}: the published gradient of {} is not that of this rank's own samples, but {}; "
                       "replicas that merge_interval lets differ do not sum over its axes, and the host "
                       "has multiplied losses by their number",
                       bindings_.strategy_name(), param.name, found)
                 : fmt::format(
                       "{}: the published gradient of {} is not the sum over the {} ranks that share it, "
                       "but {}; sum each gradient over gradient_axes once, do not average, and keep "
                       "nothing of earlier steps",
                       bindings_.strategy_name(), param.name, ranks, found);
}

void StepCheck::finish() {
  const std::vector<Sketch> expected = sum_local_gradients();
  const std::vector<KnownPart> published = known_parts(bindings_, [](const Shard& shard, KnownPart& part) {
    if (shard.gradient.defined()) add_to_sketch(shard.gradient, shard.begin, part.gradient);
  });
  for (const weft_param* param : bindings_.own_params())
    if (!param->frozen && published[param->index].is_whole(*param))
      compare_gradient(*param, published[param->index].gradient, expected[param->index]);
  on_every_rank(bindings_.world().communicator(), [&] {
    if (!problem_.empty()) fail(WEFT_INTERNAL, "{}", problem_);
  });
}

}  // namespace weft

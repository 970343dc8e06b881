#include "contract/tiny_job.hpp"

#include <ATen/ops/zeros_like.h>

#include "base/text.hpp"

namespace weft::contract {

namespace {

constexpr double kWritten = 0.25;

}  // namespace

Tolerances tolerances(const std::string& precision) {
  if (precision == "fp64") return {1e-9, 1e-8};
  if (precision == "fp32") return {1e-5, 1e-3};
  return {0.02, 0.15};
}

TinyJob boost(const World& world, const Run& run) {
  BoosterOptions options;
  options.strategy = run.strategy;
  options.options = run.options;
  options.precision = run.precision;
  options.accumulate = run.accumulate;
  options.recompute = run.recompute;
  options.device = run.device;
  options.check_agreement = -1;
  auto module = std::make_shared<TinyModel>(precision_dtype(run.precision));
  const Model model = Model::adopt(module);
  Booster booster(options, world);
  Job job = booster.boost(model, optim::SGD(model.parameters(), {.lr = 0.3, .momentum = 0.5}));
  return {std::move(module), std::move(booster), std::move(job)};
}

std::string seen_difference(TinyModel& model, const Tensors& expected, double tolerance) {
  const Tensors seen = model.take_seen();
  return difference(seen, expected, tolerance);
}

void check_written(TinyJob& tiny, const Tensors& initial, const Tolerances& allowed, Findings& findings) {
  Bindings& bindings = tiny.bindings();
  Tensors written;
  for (const auto& [name, value] : initial) written[name] = value + kWritten;
  const std::vector<Shard> shards = bindings.publish(WEFT_REASON_LOAD);
  for (const Shard& shard : shards) at::Tensor(shard.value).add_(kWritten);
  findings.look("what is written into a published value is there when it is published again",
                published_difference(bindings, &Shard::value, written, allowed.values));
  bindings.values_written(WEFT_REASON_LOAD, shards);
  tiny.model->take_seen();
  tiny.job.evaluate(tiny.batch(0));
  findings.look("layers compute with what was written into the published values",
                seen_difference(*tiny.model, written, allowed.values));
  for (const Shard& shard : shards) at::Tensor(shard.value).sub_(kWritten);
  bindings.values_written(WEFT_REASON_LOAD, shards);
}

void check_zeroed(TinyJob& tiny, const Tensors& gradients, int64_t step, Findings& findings) {
  tiny.job.optimizer.zero_grad();
  Tensors zero;
  for (const auto& [name, gradient] : gradients) zero[name] = at::zeros_like(gradient);
  const std::string problem = published_difference(tiny.bindings(), &Shard::gradient, zero, 0);
  findings.look("zero_gradients leaves no gradient",
                problem.empty() ? "" : fmt::format("step {}, {}", step + 1, problem));
}

}  // namespace weft::contract

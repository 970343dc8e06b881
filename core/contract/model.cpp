#include "contract/model.hpp"

#include <ATen/ops/randn.h>

#include <cmath>

#include "base/text.hpp"
#include "contract/tensors.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"
#include "failure.hpp"
#include "opening/model_state.hpp"
#include "weft/booster.hpp"

namespace weft::contract {

namespace {

constexpr double kStep = 1e-6;  // of the differences
constexpr double kOfDerivative = 1e-4,
                 kOfAll = 1e-7;  // tolerances, relative to the derivative and to all of them
constexpr const char* kDerivatives = "gradients are the derivatives of the loss";

double norm_of(const Tensors& tensors) {
  double square = 0;
  for (const auto& [name, tensor] : tensors) square += device::value_of<double>(tensor.square().sum());
  return std::sqrt(square);
}

// Adds `factor` times the direction to the values of a parameter.
void move(Bindings& bindings, const std::string& name, const at::Tensor& direction, double factor) {
  const std::vector<Shard> shards = bindings.publish(WEFT_REASON_LOAD);
  for (const Shard& shard : shards)
    if (shard.param->name == name)
      at::Tensor(shard.value).add_(direction.view(-1).narrow(0, shard.begin, shard.count), factor);
  bindings.values_written(WEFT_REASON_LOAD, shards);
}

}  // namespace

void check_gradients(const std::function<Model()>& open, const Sample& sample, Findings& findings) {
  BoosterOptions options;
  options.strategy = "none";
  options.precision = "fp64";
  Model model = open();
  const optim::Optimizer optimizer = optim::SGD(model.parameters());
  Job job = Booster(options, launch(0, 1, "localhost", 1)).boost(model, optimizer, sample.criterion);
  Bindings& bindings = job.model.shared().bindings();
  const double loss = job.accumulate_gradients(sample.batch);
  findings.look("the loss is a number", std::isfinite(loss) ? "" : fmt::format("it is {}", loss));
  const double evaluated = job.evaluate(sample.batch).loss();
  findings.look("the loss of an evaluation is that of training",
                difference("the loss", evaluated, loss, 1e-9));
  const Tensors gradients = published(bindings, &Shard::gradient);
  const double all = norm_of(gradients);
  const at::Generator generator = device::host_generator(11);
  for (const auto& [name, gradient] : gradients) {
    if (bindings.find_param(name)->frozen) continue;
    const at::Tensor direction = at::randn(gradient.sizes(), generator, gradient.options());
    const double expected = device::value_of<double>((gradient * direction).sum());
    move(bindings, name, direction, kStep);
    const double above = job.evaluate(sample.batch).loss();
    move(bindings, name, direction, -2 * kStep);
    const double below = job.evaluate(sample.batch).loss();
    move(bindings, name, direction, kStep);
    const double found = (above - below) / (2 * kStep);
    const double allowed = kOfDerivative * std::abs(found) + kOfAll * all + 1e-9;
    findings.look(kDerivatives,
                  std::abs(found - expected) <= allowed
                      ? ""
                      : fmt::format("{}: along a random direction the loss changes by {:.6g}, but the "
                                    "gradient says {:.6g}",
                                    name, found, expected));
  }
}

void check_model(const std::string& name, const std::string& config, const Tell& tell) {
  const Scratch scratch;
  const SmallModel small = small_model(name, config, scratch);
  const auto open = [&] { return small.open("fp64"); };
  std::string problem = "it says no example of a batch (Model::example)";
  for (const Sample& sample : small_samples(open().module())) try {
      Findings findings;
      check_gradients(open, sample, findings);
      for (const Check& check : findings.checks()) tell(check);
      return;
    } catch (const std::exception& exception) {
      problem = describe(exception).text;  // it takes labels of another form
    }
  tell({"is trained on one rank", false, problem});
}

}  // namespace weft::contract

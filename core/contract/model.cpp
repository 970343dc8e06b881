#include "contract/model.hpp"

#include <ATen/ops/randn.h>

#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "contract/one_rank.hpp"
#include "contract/ranks.hpp"
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

Job boost(Model model, const Sample& sample, const nlohmann::json& given = nlohmann::json::object()) {
  BoosterOptions options;
  options.strategy = given.empty() ? "none" : "";
  options.options = given.dump();
  options.precision = kReferencePrecision;
  options.objective = sample.objective;
  options.objective_options = sample.objective_options;
  const optim::Optimizer optimizer = optim::SGD(model.parameters(), {.lr = 0.1});
  return Booster(options, launch(0, 1, "localhost", 1)).boost(model, optimizer, sample.criterion);
}

}  // namespace

std::optional<Sample> find_sample(const OpenModel& open, std::string& problem) {
  for (const Sample& sample : small_samples(open().module())) try {
      if (boost(open(), sample).evaluate(sample.batch).loss() != 0) return sample;
      problem = "its loss is 0";
    } catch (const std::exception& exception) {
      problem = describe(exception).text;  // it takes labels of another form
    }
  return std::nullopt;
}

void check_gradients(const OpenModel& open, const Sample& sample, Findings& findings,
                     const nlohmann::json& options) {
  Job job = boost(open(), sample, options);
  Bindings& bindings = job.model.shared().bindings();
  job.accumulate_gradients(sample.batch);  // after an update no parameter is 0 that begins there
  job.optimizer.step();
  job.optimizer.zero_grad();
  const double loss = job.accumulate_gradients(sample.batch);
  findings.look("the loss is finite", std::isfinite(loss) ? "" : fmt::format("it is {}", loss));
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

void check_on_ranks(const OpenModel& open, const Sample& sample, const Tell& tell) {
  const Reference reference = make_reference(open, sample);
  const auto run = [&](const Case& one, const Split& split) {
    run_case(
        one,
        [&](const World& world, Findings& findings) {
          compare_with_one_rank(world, open, split, reference, findings);
        },
        tell);
  };
  run({"2 ranks", 2}, {});
  run({"2 ranks, 2 micro-batches, recomputation", 2}, {.accumulate = 2, .recompute = "all"});
}

void check_model(const std::string& name, const std::string& config, const Tell& tell) {
  const Scratch scratch;
  const SmallModel small = small_model(name, config, scratch);
  const auto open = [&] { return small.open(kReferencePrecision); };
  std::string problem = "it says no example of a batch (Model::example)";
  const std::optional<Sample> sample = find_sample(open, problem);
  if (!sample) return tell({"is trained on one rank", false, problem});
  if (sample->criterion) tell(stand_in_for_loss(problem));
  Findings findings;
  try {
    check_gradients(open, *sample, findings);
  } catch (const std::exception& exception) {
    findings.look("is trained on one rank", describe(exception).text);
  }
  for (const Check& check : findings.checks()) tell(check);
  if (!findings.failed()) check_on_ranks(open, *sample, tell);
}

}  // namespace weft::contract

// Rules of devices: a small model that is trained.
#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "contract/tiny_job.hpp"

namespace weft::contract {

namespace {

constexpr int64_t kSteps = 3;

struct Reference {
  struct Step {
    double loss = 0;
    Tensors gradients, values;  // the values after the step
  };
  Tensors initial;
  std::vector<Step> steps;
  double evaluated = 0;
};

// Trains on the CPU of this process, whose device is then the one that it was. A fork of a process that has
// run a backward has no threads for those of a device, so the ranks do this themselves.
Reference train_on_the_host() {
  const device::Device before = device::current();
  device::use(device::host());
  TinyJob tiny = boost(launch(0, 1, "localhost", 1), {.precision = "fp32"});
  Bindings& bindings = tiny.bindings();
  Reference reference;
  reference.initial = published(bindings, &Shard::value);
  for (int64_t step = 0; step < kSteps; ++step) {
    Reference::Step& made = reference.steps.emplace_back();
    made.loss = tiny.job.accumulate_gradients(tiny_batch(step));
    made.gradients = published(bindings, &Shard::gradient);
    tiny.job.optimizer.step();
    made.values = published(bindings, &Shard::value);
    tiny.job.optimizer.zero_grad();
  }
  reference.evaluated = tiny.job.evaluate(tiny_batch(kSteps)).loss();
  device::use(before);
  return reference;
}

// Compares a training in this precision.
void train(const World& world, const Run& run, const Reference& reference, Findings& findings) {
  const Tolerances allowed = tolerances(run.precision);
  const auto look = [&](const char* rule, const std::string& problem) {
    findings.look(fmt::format("{}: {}", run.precision, rule), problem);
  };
  TinyJob tiny = boost(world, run);
  Bindings& bindings = tiny.bindings();
  look("values begin as on the CPU",
       published_difference(bindings, &Shard::value, reference.initial, allowed.values));
  for (size_t step = 0; step < reference.steps.size(); ++step) {
    const Reference::Step& right = reference.steps[step];
    const auto in_step = [&](const std::string& problem) {
      return within(fmt::format("step {}", step + 1), problem);
    };
    const double loss = tiny.job.accumulate_gradients(tiny.batch(static_cast<int64_t>(step)));
    look("the loss is that of the CPU", in_step(difference("the loss", loss, right.loss, allowed.values)));
    look("gradients are those of the CPU",
         in_step(published_difference(bindings, &Shard::gradient, right.gradients, allowed.gradients)));
    tiny.job.optimizer.step();
    look("values after each update are those of the CPU",
         in_step(published_difference(bindings, &Shard::value, right.values, allowed.values)));
    tiny.job.optimizer.zero_grad();
  }
  const double evaluated = tiny.job.evaluate(tiny.batch(kSteps)).loss();
  look("the evaluation loss is that of the CPU",
       difference("the loss", evaluated, reference.evaluated, allowed.values));
}

}  // namespace

void check_training(const World& world, Findings& findings) {
  const Reference reference = train_on_the_host();
  Run run;
  run.device = device::current().kind().name;
  if (world.size() > 1) run.strategy = "";  // the default one
  for (const char* const precision : {"fp32", "bf16"}) {
    run.precision = precision;
    train(world, run, reference, findings);
  }
}

}  // namespace weft::contract

#include "contract/one_rank.hpp"

#include "base/text.hpp"
#include "contract/ranks.hpp"
#include "opening/model_state.hpp"
#include "sequence_modes/sequence_mode.hpp"
#include "weft/booster.hpp"

namespace weft::contract {

namespace {

constexpr double kValues = 1e-9, kGradients = 1e-8, kRate = 0.1;
constexpr int kUpdates = 2;

BoosterOptions booster_options(const std::string& strategy, const Split& split, const Sample& sample) {
  BoosterOptions options;
  options.strategy = strategy;
  options.options = split.options.dump();
  options.precision = kReferencePrecision;
  options.accumulate = split.accumulate;
  options.recompute = split.recompute;
  options.objective = sample.objective;
  options.objective_options = sample.objective_options;
  options.check_agreement = -1;  // the suites compare by themselves, and more closely
  return options;
}

Job boost(Booster& booster, const OpenModel& open, const Criterion& criterion) {
  Model model = open();
  optim::Optimizer optimizer = optim::SGD(model.parameters(), {.lr = kRate});
  return booster.boost(std::move(model), std::move(optimizer), criterion);
}

// Runs one update. Returns what it computed.
template <class Look>
void update(Job& job, const Batch& batch, const Look& look) {
  const double loss = job.accumulate_gradients(batch);
  look(loss, job.model.shared().bindings());
  job.optimizer.step();
  job.optimizer.zero_grad();
}

}  // namespace

Reference make_reference(const OpenModel& open, const Sample& sample, const nlohmann::json& options) {
  Booster booster(booster_options(options.empty() ? "none" : "", {.options = options}, sample),
                  launch(0, 1, "localhost", 1));
  Job job = boost(booster, open, sample.criterion);
  Reference reference{.sample = sample};
  for (int i = 0; i < kUpdates; ++i)
    update(job, sample.batch, [&](double loss, Bindings& bindings) {
      reference.steps.push_back({loss, published(bindings, &Shard::gradient)});
    });
  reference.values = published(job.model.shared().bindings(), &Shard::value);
  reference.evaluated = job.evaluate(sample.batch).loss();
  return reference;
}

void compare_with_one_rank(const World& world, const OpenModel& open, const Split& split,
                           const Reference& reference, Findings& findings) {
  Booster booster(booster_options("", split, reference.sample), world);
  Job job = boost(booster, open, reference.sample.criterion);
  const Batch batch = own_part(reference.sample.batch, booster.data_rank(), booster.data_size());
  for (const Reference::Step& step : reference.steps) {
    update(job, batch, [&](double loss, Bindings& bindings) {
      findings.look("the loss is that of one rank", difference("the loss", loss, step.loss, kValues));
      findings.look("gradients are those of one rank",
                    published_difference(bindings, &Shard::gradient, step.gradients, kGradients));
    });
    if (on_any_rank(world, findings.failed())) return;
  }
  findings.look(
      "values are those of one rank after an update",
      published_difference(job.model.shared().bindings(), &Shard::value, reference.values, kValues));
  const double evaluated = job.evaluate(batch).loss();
  findings.look("the loss of an evaluation is that of one rank",
                difference("the loss", evaluated, reference.evaluated, kValues));
}

std::vector<Layout> make_layouts() {
  std::vector<Layout> layouts;
  for (const int ranks : {2, 4}) {
    Layout layout{fmt::format("tp_size {}", ranks), ranks, {{"tp_size", ranks}}, {}};
    layout.sizes.tensor = static_cast<uint32_t>(ranks);
    layouts.push_back(std::move(layout));
  }
  for (const plan::SequenceMode& mode : plan::sequence_modes()) {
    if (mode.axis == plan::SequenceMode::Axis::kNone) continue;
    const bool on_tensor_axis = mode.axis == plan::SequenceMode::Axis::kTensor;
    Layout layout{std::string(mode.name),
                  2,
                  {{on_tensor_axis ? "tp_size" : "sp_size", 2},
                   {"enable_sequence_parallelism", true},
                   {"sequence_parallelism_mode", mode.name}},
                  {}};
    (on_tensor_axis ? layout.sizes.tensor : layout.sizes.sequence) = 2;
    layout.sizes.sequence_mode = mode.name;
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

}  // namespace weft::contract

#include "contract/policy.hpp"

#include <map>
#include <numeric>

#include "apply/describe_model.hpp"
#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "contract/ranks.hpp"
#include "contract/small_model.hpp"
#include "contract/tensors.hpp"
#include "opening/model_plan.hpp"
#include "opening/model_state.hpp"
#include "plan/builder.hpp"
#include "sequence_modes/sequence_mode.hpp"
#include "weft/booster.hpp"

namespace weft::contract {

namespace {

using nlohmann::json;

constexpr const char* kPrecision = "fp64";
constexpr double kValues = 1e-9, kGradients = 1e-8, kRate = 0.1;

// A way to split a model across ranks.
struct Layout {
  std::string title;
  int ranks = 2;
  json options;  // of the strategy
  plan::ParallelSizes sizes;
};

std::vector<Layout> make_layouts() {
  std::vector<Layout> layouts;
  for (const int ranks : {2, 4}) {
    Layout layout{fmt::format("tensor size {}", ranks), ranks, {{"tp_size", ranks}}, {}};
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

// What one rank makes of a model: of the first step, and of the values after it.
struct Reference {
  Sample sample;
  double loss = 0, evaluated = 0;
  Tensors gradients, values;
};

Job boost(const World& world, const SmallModel& small, const std::string& strategy, const json& options,
          const Criterion& criterion) {
  BoosterOptions booster;
  booster.strategy = strategy;
  booster.options = options.dump();
  booster.precision = kPrecision;
  booster.check_agreement = -1;  // the suite compares by itself, and more closely
  Model model = small.open(kPrecision);
  optim::Optimizer optimizer = optim::SGD(model.parameters(), {.lr = kRate});
  return Booster(booster, world).boost(std::move(model), std::move(optimizer), criterion);
}

Reference make_reference(const SmallModel& small, const Sample& sample) {
  Job job = boost(launch(0, 1, "localhost", 1), small, "none", json::object(), sample.criterion);
  Bindings& bindings = job.model.shared().bindings();
  Reference reference{.sample = sample};
  reference.loss = job.accumulate_gradients(sample.batch);
  reference.gradients = published(bindings, &Shard::gradient);
  job.optimizer.step();
  reference.values = published(bindings, &Shard::value);
  job.optimizer.zero_grad();
  reference.evaluated = job.evaluate(sample.batch).loss();
  return reference;
}

// Takes the first sample that the model learns from.
std::optional<Reference> find_reference(const SmallModel& small, std::string& problem) {
  for (const Sample& sample : small_samples(small.open(kPrecision).module())) try {
      Reference reference = make_reference(small, sample);
      if (std::isfinite(reference.loss) && reference.loss != 0) return reference;
      problem = fmt::format("its loss is {}", reference.loss);
    } catch (const std::exception& exception) {
      problem = describe(exception).text;
    }
  if (problem.empty()) problem = "it says no example of a batch (Model::example)";
  return std::nullopt;
}

void train(const World& world, const SmallModel& small, const json& options, const Reference& reference,
           Findings& findings) {
  Job job = boost(world, small, "", options, reference.sample.criterion);
  Bindings& bindings = job.model.shared().bindings();
  const double loss = job.accumulate_gradients(reference.sample.batch);
  findings.look("the loss is that of one rank", difference("the loss", loss, reference.loss, kValues));
  findings.look("gradients are those of one rank",
                published_difference(bindings, &Shard::gradient, reference.gradients, kGradients));
  if (on_any_rank(world, findings.failed())) return;
  job.optimizer.step();
  findings.look("values are those of one rank after an update",
                published_difference(bindings, &Shard::value, reference.values, kValues));
  job.optimizer.zero_grad();
  const double evaluated = job.evaluate(reference.sample.batch).loss();
  findings.look("the loss of an evaluation is that of one rank",
                difference("the loss", evaluated, reference.evaluated, kValues));
}

// Trains under several layouts of one number of ranks in one case, because forks take longer to start than a
// small model trains. What one of them breaks may break the others: then each gets a case of its own.
void run_layouts(const SmallModel& small, const std::vector<Layout>& layouts, const Reference& reference,
                 const Tell& tell) {
  const int ranks = layouts.front().ranks;
  std::vector<Check> checks;
  const auto together = [&](const World& world, Findings& findings) {
    for (const Layout& layout : layouts) {
      Findings own;
      train(world, small, layout.options, reference, own);
      for (const Check& check : own.checks()) findings.look(layout.title + ": " + check.name, check.text);
    }
  };
  const auto keep = [&](const Check& check) { checks.push_back(check); };
  const Case all = {fmt::format("{}, {} ranks", small.architecture, ranks), ranks};
  if (run_case(all, together, keep) == Outcome::kPassed) {
    for (const Check& check : checks) tell(check);
    return;
  }
  for (const Layout& layout : layouts)
    run_case(
        {fmt::format("{}, {} ranks, {}", small.architecture, ranks, layout.title), ranks},
        [&](const World& world, Findings& findings) {
          train(world, small, layout.options, reference, findings);
        },
        tell);
}

// Returns why the policy itself refuses the sizes, or "". What the host finds wrong in a plan is no refusal.
std::string refusal(const plan::ModelDescription& model, const plan::Policy& policy,
                    const plan::ParallelSizes& sizes) {
  std::vector<size_t> order(model.nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const plan::Recording recording = plan::record(model, order, policy, sizes);
  return recording.rejections.empty() ? recording.refusal : recording.rejections.front();
}

void check_class(const std::string& name, const SmallModel& small, const Tell& tell) {
  std::string problem, identity;
  const std::optional<Reference> reference = find_reference(small, problem);
  if (!reference) return tell({small.architecture + ": one rank trains it", false, problem});
  const Model model = small.open(kPrecision);
  const plan::ModelDescription description = plan::describe_model(model.module());
  const plan::Policy policy = *find_policy(model.module(), name, &identity);
  std::map<int, std::vector<Layout>> layouts;  // by the number of ranks, which forks take longest to start
  for (Layout& layout : make_layouts()) {
    const std::string refused = refusal(description, policy, layout.sizes);
    if (!refused.empty()) {
      tell(
          {fmt::format("{}, {}: is refused by the policy", small.architecture, layout.title), true, refused});
      continue;
    }
    layout.options["custom_policy"] = name;
    if (reference->sample.criterion) layout.options["parallel_output"] = false;
    layouts[layout.ranks].push_back(std::move(layout));
  }
  for (const auto& [ranks, own] : layouts) run_layouts(small, own, *reference, tell);
  tell({small.architecture + ": is split in some layout", !layouts.empty(),
        layouts.empty() ? "the policy refuses every layout" : ""});
}

}  // namespace

void check_policy(const std::string& name, const std::string& config, const Tell& tell) {
  const Scratch scratch;
  for (const SmallModel& small : small_models(name, config, scratch)) check_class(name, small, tell);
}

}  // namespace weft::contract

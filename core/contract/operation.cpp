#include "contract/operation.hpp"

#include <algorithm>
#include <fstream>
#include <map>

#include "apply/describe_model.hpp"
#include "base/text.hpp"
#include "contract/model.hpp"
#include "contract/ranks.hpp"
#include "failure.hpp"
#include "opening/library_operations.hpp"
#include "operations/registry.hpp"

namespace weft::contract {

namespace {

using nlohmann::json;
using Groups = std::map<std::string, std::string>;  // patterns of layers, by the last part of their paths

// Returns the layers of the model that the operation can be given to.
Groups layers_for(const plan::Operation& operation, const SmallModel& small) {
  Groups groups;
  const Model model = small.open(kReferencePrecision);
  for (const plan::Node& node : plan::describe_model(model.module()).nodes) {
    if (std::find(operation.kinds.begin(), operation.kinds.end(), node.kind) == operation.kinds.end())
      continue;
    std::string& pattern = groups[node.path.substr(node.path.rfind('.') + 1)];
    pattern += (pattern.empty() ? "" : ", ") + node.path;
  }
  return groups;
}

// Returns the first class that has such a layer and a loss.
SmallModel model_for(const plan::Operation& operation, const std::string& config, const Scratch& scratch) {
  const std::vector<std::string> classes =
      config.empty() ? installed_classes() : std::vector<std::string>{""};
  for (const std::string& architecture : classes) try {
      SmallModel small = small_model(architecture, config, scratch);
      std::string problem;
      const auto open = [&] { return small.open(kReferencePrecision); };
      if (layers_for(operation, small).empty()) continue;
      const std::optional<Sample> sample = find_sample(open, problem);
      if (sample && (!sample->criterion || !config.empty())) return small;
    } catch (const Error&) {  // a class without a configuration of its own
      if (!config.empty()) throw;
    }
  fail(WEFT_NOT_FOUND,
       "{} can be given to layers of the kinds {}; {}: give --model with the config.json of a model that has "
       "one",
       operation.id, fmt::join(operation.kinds, ", "),
       config.empty() ? "no installed class that learns from labels has such" : config + " has none");
}

// The operation in some layers of a small model.
struct Trial {
  OpenModel open;
  json options = json::object();  // of the strategy
};

class Suite {
 public:
  Suite(const plan::Operation& operation, const std::string& config, const Tell& tell)
      : operation_(operation), tell_(tell), small_(model_for(operation, config, scratch_)) {}

  void run() {
    const Groups groups = accepted();
    if (groups.empty()) return;
    std::string all;
    for (const auto& [leaf, pattern] : groups) all += (all.empty() ? "" : ", ") + pattern;
    const Trial trial = trial_of(all);
    Findings findings;
    try {
      check_gradients(trial.open, *sample_, findings, trial.options);
    } catch (const std::exception& exception) {
      findings.look("is trained on one rank", describe(exception).text);
    }
    for (const Check& check : findings.checks()) tell_({named(check.name), check.passed, check.text});
    if (findings.failed()) return;
    run_on_ranks(trial);
    if (operation_.add == nullptr) return;  // which layers a policy splits around it, its author knows
    for (const auto& [leaf, pattern] : groups) run_layouts(leaf, trial_of(pattern));
  }

 private:
  std::string named(const std::string& name) const { return operation_.id + ": " + name; }

  Trial trial_of(const std::string& pattern) const {
    const json entry = {{"on", pattern}, {"operation", operation_.id}};
    if (operation_.add != nullptr)
      return {[small = small_, entry] {
        Model model = small.open(kReferencePrecision);
        model.adapt(entry.dump());
        return model;
      }};
    const std::string file = scratch_.path("policy.json");
    std::ofstream(file) << json{{"name", "validate"}, {"entries", {entry}}}.dump();
    return {[small = small_] { return small.open(kReferencePrecision); }, {{"custom_policy", file}}};
  }

  // Returns the layers that the operation does not refuse on one rank, and tells of those that it does.
  Groups accepted() {
    Groups groups;
    for (const auto& [leaf, pattern] : layers_for(operation_, small_)) {
      const Trial trial = trial_of(pattern);
      std::string problem;
      try {
        if (!sample_) sample_ = find_sample(trial.open, problem);
        if (!sample_) fail(WEFT_INTERNAL, "{}", problem);
        make_reference(trial.open, *sample_, trial.options);
        groups.emplace(leaf, pattern);
      } catch (const std::exception& exception) {
        const Failure failure = describe(exception);
        const bool refused = failure.status == WEFT_INVALID_ARGUMENT || failure.status == WEFT_UNIMPLEMENTED;
        tell_({named(fmt::format("{}: {}", leaf, refused ? "is refused" : "is trained on one rank")), refused,
               failure.text});
      }
    }
    tell_({named("can be given to some layer"), !groups.empty(), ""});
    return groups;
  }

  void run_on_ranks(const Trial& trial) {
    const Reference reference = make_reference(trial.open, *sample_, trial.options);
    const auto run = [&](const std::string& title, int64_t accumulate, const char* recompute) {
      const Split split{trial.options, accumulate, recompute};
      run_case({named(title), 2}, body(trial, split, reference), tell_);
    };
    run("2 ranks", 1, "off");
    run("2 ranks, 2 micro-batches, recomputation", 2, "all");
  }

  void run_layouts(const std::string& leaf, const Trial& trial) {
    const Reference reference = make_reference(trial.open, *sample_);
    for (const Layout& layout : make_layouts()) {
      if (layout.ranks > 2) continue;
      const Case one = {named(fmt::format("{}, {}", layout.title, leaf)), layout.ranks, /*may_refuse=*/true};
      run_case(one, body(trial, {.options = layout.options}, reference), tell_);
    }
  }

  static RankBody body(const Trial& trial, const Split& split, const Reference& reference) {
    return [=, &reference](const World& world, Findings& findings) {
      compare_with_one_rank(world, trial.open, split, reference, findings);
    };
  }

  const plan::Operation& operation_;
  const Tell& tell_;
  const Scratch scratch_;
  const SmallModel small_;
  std::optional<Sample> sample_;
};

}  // namespace

void check_operation(const std::string& name, const std::string& config, const Tell& tell) {
  constexpr int kMostRevisions = 20;
  find_library_operations();
  bool any = false;
  for (int revision = 1; revision <= kMostRevisions; ++revision) {
    const plan::Operation* const operation = plan::find_operation(fmt::format("{}/{}", name, revision));
    if (operation == nullptr) continue;
    any = true;
    Suite(*operation, config, tell).run();
  }
  tell({name + ": the library has a revision of it", any,
        any ? "" : fmt::format("`find` knows none of {0}/1 to {0}/{1}", name, kMostRevisions)});
}

}  // namespace weft::contract

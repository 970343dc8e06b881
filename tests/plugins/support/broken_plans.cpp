#include "plugins/support/broken_plans.hpp"

#include <nlohmann/json.hpp>

#include "booster/chosen_strategy.hpp"
#include "booster/model_plan.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

using nlohmann::json;

json entry_of(const plan::Replacement& replacement) {
  json entry = {{"on", replacement.pattern}, {"operation", replacement.operation}};
  for (const plan::Attribute& attribute : replacement.attributes) {
    if (attribute.kind == WEFT_KIND_BOOL) entry[attribute.key] = attribute.integer != 0;
    if (attribute.kind == WEFT_KIND_INT && attribute.integer != 0) entry[attribute.key] = attribute.integer;
    if (attribute.kind == WEFT_KIND_TEXT) entry[attribute.key] = attribute.text;
  }
  return entry;
}

// Returns the family's own policy for these options, as data.
json policy_of(const Model& model, const plan::ParallelSizes& sizes) {
  std::string identity;
  const plan::Plan plan = make_plan(model.module(), sizes, "", &identity);
  json entries = json::array();
  for (const plan::Replacement& replacement : plan.replacements) entries.push_back(entry_of(replacement));
  for (const plan::Division& division : plan.divisions)
    entries.push_back({{"divide", division.pattern}, {"attribute", division.attribute}, {"by", division.by}});
  return {{"name", "broken"}, {"entries", entries}};
}

// Chooses among forms of the same formula: without it the model is the same. A dropout's masks differ, which
// gradients without dropout do not show: Edges.DropoutDrawsForWhatARankHasAlone does. Where ranks have other
// positions, norms, embeddings and attention are parallel operations.
bool chooses_a_form(const json& entry, bool splits_sequences) {
  const std::string operation = entry.value("operation", "");
  if (operation == "weft.dropout/1" || operation == "weft.activation/1") return true;
  return !splits_sequences && (operation == "weft.attention/1" || operation == "weft.layer_norm/1" ||
                               operation == "weft.rms_norm/1" || operation == "weft.embedding/1" ||
                               operation == "weft.sequence_end/1");
}

struct Mistake {
  std::string what;  // empty: none
  json policy;
};

std::vector<Mistake> mistakes_in(const json& policy, bool splits_sequences) {
  std::vector<Mistake> mistakes;
  for (size_t i = 0; i < policy["entries"].size(); ++i) {
    const json& entry = policy["entries"][i];
    if (chooses_a_form(entry, splits_sequences)) continue;
    Mistake without = {"without " + entry.dump(), policy};
    without.policy["entries"].erase(i);
    mistakes.push_back(std::move(without));
    if (!entry.contains("layout")) continue;
    Mistake turned = {"turned round " + entry.dump(), policy};
    turned.policy["entries"][i]["layout"] = entry["layout"] == "in_out" ? "out_in" : "in_out";
    mistakes.push_back(std::move(turned));
  }
  return mistakes;
}

Tensors gradients(const World& world, const Trial& trial, const JobOptions& options) {
  Job job = boost(world, trial.model(options), options);
  job.accumulate_gradients(trial.batch(0));
  return published_gradients(job);
}

bool agree(const Tensors& found, const Tensors& expected) {
  for (const auto& [name, tensor] : expected)
    if (!is_near(found.at(name), tensor, 1e-6)) return false;
  return true;
}

}  // namespace

void expect_every_mistake_is_seen(const std::string& name, const Trial& trial, const JobOptions& options,
                                  int ranks, size_t count) {
  const Tensors expected = gradients(one_rank(), trial, {.precision = "fp64"});
  BoosterOptions booster;
  booster.strategy = options.strategy;
  booster.options = options.options;
  booster.precision = options.precision;
  const plan::ParallelSizes sizes = choose_strategy(booster).host.plan_flags;
  const bool splits_sequences = sizes.sequence > 1 || sizes.sequence_mode != WEFT_SEQUENCE_WHOLE;
  const json policy = policy_of(trial.model(options), sizes);
  std::vector<Mistake> plans = mistakes_in(policy, splits_sequences);
  ASSERT_GT(plans.size(), 3u);
  plans = slice(name, plans, count);
  plans.push_back({"", policy});
  const TemporaryFolder folder;
  for (size_t i = 0; i < plans.size(); ++i) folder.file(std::to_string(i) + ".json", plans[i].policy.dump());
  on_ranks({ranks}, [&](World& world) {
    for (size_t i = 0; i < plans.size(); ++i) {
      JobOptions broken = options;
      json own = json::parse(options.options);
      own["custom_policy"] = folder.path() + "/" + std::to_string(i) + ".json";
      broken.options = own.dump();
      bool seen = false;
      try {
        seen = !agree(gradients(world, trial, broken), expected);
      } catch (const std::exception& refusal) {
        seen = true;
      }
      EXPECT_EQ(seen, !plans[i].what.empty()) << name << " " << plans[i].what;
    }
  });
}

}  // namespace weft::test

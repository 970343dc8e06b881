// Plans with a mistake: each entry of a shipped policy left out, each layout turned round. What is not
// refused has other gradients than one rank; nothing that splits a layer passes.
#include <nlohmann/json.hpp>

#include <fstream>

#include "booster/model_plan.hpp"
#include "plugins/hybrid_parallel/classes.hpp"
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

// The family's own policy on two ranks, as data.
json policy_of(const Model& model) {
  std::string identity;
  plan::ParallelSizes sizes;
  sizes.tensor = 2;
  const plan::Plan plan = make_plan(model.module(), sizes, "", &identity);
  json entries = json::array();
  for (const plan::Replacement& replacement : plan.replacements) entries.push_back(entry_of(replacement));
  for (const plan::Division& division : plan.divisions)
    entries.push_back({{"divide", division.pattern}, {"attribute", division.attribute}, {"by", division.by}});
  return {{"name", "broken"}, {"entries", entries}};
}

// Chooses among forms of the same formula: without it the model is the same. A dropout's masks differ, which
// gradients without dropout do not show: Edges.DropoutDrawsForWhatARankHasAlone does.
bool chooses_a_form(const json& entry) {
  const std::string operation = entry.value("operation", "");
  return operation == "weft.dropout/1" || operation == "weft.activation/1" ||
         operation == "weft.attention/1" || operation == "weft.layer_norm/1" ||
         operation == "weft.rms_norm/1" || operation == "weft.embedding/1" ||
         operation == "weft.sequence_end/1";
}

struct Mistake {
  std::string what;
  json policy;
};

std::vector<Mistake> mistakes_in(const json& policy) {
  std::vector<Mistake> mistakes;
  for (size_t i = 0; i < policy["entries"].size(); ++i) {
    const json& entry = policy["entries"][i];
    if (chooses_a_form(entry)) continue;
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

void expect_every_mistake_is_seen(const Trial& trial) {
  const Tensors expected = gradients(one_rank(), trial, {.precision = "fp64"});
  const TemporaryFolder folder;
  const json policy = policy_of(trial.model({.precision = "fp64"}));
  std::vector<Mistake> plans = mistakes_in(policy);
  ASSERT_GT(plans.size(), 6u);
  plans.push_back({"", policy});
  for (size_t i = 0; i < plans.size(); ++i) folder.file(std::to_string(i) + ".json", plans[i].policy.dump());
  on_ranks({2}, [&](World& world) {
    for (size_t i = 0; i < plans.size(); ++i) {
      const JobOptions options = {
          .strategy = "hybrid_parallel",
          .options =
              json{{"tp_size", 2}, {"custom_policy", folder.path() + "/" + std::to_string(i) + ".json"}}
                  .dump(),
          .precision = "fp64"};
      bool seen = false;
      try {
        seen = !agree(gradients(world, trial, options), expected);
      } catch (const std::exception& refusal) {
        seen = true;
      }
      EXPECT_EQ(seen, !plans[i].what.empty()) << plans[i].what;
    }
  });
}

TEST(BrokenPlan, OfGpt2IsSeen) {
  expect_every_mistake_is_seen(gpt2_trial("GPT2LMHeadModel", "fp64"));
}

TEST(BrokenPlan, OfLlamaIsSeen) {
  expect_every_mistake_is_seen(llama_trial({"LlamaForCausalLM", 2, true}, "fp64"));
}

}  // namespace

}  // namespace weft::test

#include "plugins/support/broken_plans.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "booster/chosen_strategy.hpp"
#include "opening/model_plan.hpp"
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

plan::Plan shipped_plan(const Model& model, const plan::ParallelSizes& sizes) {
  std::string identity;
  return make_plan(model.module(), sizes, "", &identity);
}

// Returns the policy that gives this plan, as data.
json policy_of(const plan::Plan& plan) {
  json entries = json::array();
  for (const plan::Replacement& replacement : plan.replacements) entries.push_back(entry_of(replacement));
  for (const plan::Division& division : plan.divisions)
    entries.push_back({{"divide", division.pattern}, {"attribute", division.attribute}, {"by", division.by}});
  return {{"name", "broken"}, {"entries", entries}};
}

// What becomes of a plan that is changed.
enum class Fate {
  kTrains,           // it has the gradients of one rank
  kRefused,          // by the plan, which names the policy
  kSeen,             // refused by whatever, or other gradients
  kRefusedOrTrains,  // depends on the model: on tied weights, or on its other sequences
};

bool splits_sequences(const plan::ParallelSizes& sizes) {
  return sizes.sequence > 1 || sizes.sequence_mode != "whole";
}

// Returns the fate of a plan without this entry. Norms, dropouts and activations need none: the host prepares
// them for split sequences.
Fate without_entry(const json& entry, const plan::ParallelSizes& sizes) {
  const std::string operation = entry.value("operation", "divide");
  const bool splits = splits_sequences(sizes);
  const auto if_needed = [](bool needed, Fate fate) { return needed ? fate : Fate::kTrains; };
  if (operation == "weft.embedding_vocab/1" || operation == "weft.linear_vocab/1")
    return Fate::kRefusedOrTrains;
  if (operation == "weft.linear_column/1" || operation == "weft.linear_row/1" || operation == "divide")
    return if_needed(sizes.tensor > 1, Fate::kRefused);
  // A norm of heads, whose gradients the ranks sum.
  if (entry.value("split", false) && operation == "weft.rms_norm/1")
    return if_needed(sizes.tensor > 1, Fate::kRefused);
  if (operation == "weft.embedding/1" || operation == "weft.sequence_split/1")
    return if_needed(splits, Fate::kRefused);
  // The end of an encoder's sequence concerns its outputs only.
  if (operation == "weft.sequence_end/1")
    return if_needed(splits, entry["on"] == "encoder.stream_end" ? Fate::kRefusedOrTrains : Fate::kRefused);
  if (operation == "weft.attention/1" || operation == "weft.cross_attention/1")
    return if_needed(sizes.sequence > 1, Fate::kRefused);
  if (operation == "weft.parallel_input/1") return if_needed(sizes.tensor > 1, Fate::kSeen);
  if (operation == "weft.attention_bias/1" || operation == "weft.alibi/1")
    return if_needed(sizes.tensor > 1 || sizes.sequence > 1, Fate::kRefused);
  if (operation == "weft.linear/1") return if_needed(splits && sizes.sequence == 1, Fate::kRefused);
  return operation == "weft.sequence_begin/1" ? Fate::kSeen : Fate::kTrains;
}

struct Change {
  std::string what;
  Fate fate;
  json policy;
};

Change with_replicated_mlp(const json& policy) {
  Change replicated = {"a replicated MLP", Fate::kTrains, policy};
  for (json& entry : replicated.policy["entries"]) {
    const std::string on = entry.value("on", ""), operation = entry.value("operation", "");
    const bool of_attention = on.find("att") != std::string::npos || on.find("Att") != std::string::npos;
    if (!of_attention && (operation == "weft.linear_column/1" || operation == "weft.linear_row/1"))
      entry = {{"on", on}, {"operation", "weft.linear/1"}};
  }
  EXPECT_NE(replicated.policy, policy) << "the policy splits no linear layers outside of attention";
  return replicated;
}

std::vector<Change> changes_of(const plan::Plan& plan) {
  const json policy = policy_of(plan);
  const plan::ParallelSizes& sizes = plan.sizes;
  std::vector<Change> changes;
  const auto change = [&](size_t entry, const char* key, const json& value, Fate fate) {
    changes.push_back(
        {fmt::format("{} = {} in {}", key, value.dump(), policy["entries"][entry].dump()), fate, policy});
    changes.back().policy["entries"][entry][key] = value;
  };
  for (size_t i = 0; i < policy["entries"].size(); ++i) {
    const json& entry = policy["entries"][i];
    changes.push_back({"without " + entry.dump(), without_entry(entry, sizes), policy});
    changes.back().policy["entries"].erase(i);
    if (entry.contains("layout"))
      change(i, "layout", entry["layout"] == "in_out" ? "out_in" : "in_out", Fate::kRefused);
    if (entry.value("split", false) && entry["operation"] == "weft.rms_norm/1")
      change(i, "split", false, sizes.tensor > 1 ? Fate::kRefused : Fate::kTrains);
    if (entry.contains("by") && sizes.tensor > 1) change(i, "by", 1, Fate::kRefused);
    // One part contradicts heads of keys, which are those of the other parts, on any number of ranks.
    if (entry.value("fused", json()) == json(3))
      change(i, "fused", 1, sizes.tensor > 1 || entry.contains("key_heads") ? Fate::kRefused : Fate::kTrains);
  }
  if (!splits_sequences(sizes)) return changes;
  // Every rank computes an embedding without an entry, and the sequence is split later.
  for (const plan::PlannedNode& node : plan.replicated) {
    if (node.kind != "Embedding") continue;
    changes.push_back({node.path + " splits its sequence before it is split", Fate::kRefused, policy});
    changes.back().policy["entries"].push_back({{"on", node.path}, {"operation", "weft.embedding/1"}});
  }
  return changes;
}

Tensors gradients(const World& world, const Trial& trial, const JobOptions& options) {
  Job job = boost(world, trial.model(options), options);
  job.accumulate_gradients(trial.batch(0));
  return published_gradients(job);
}

}  // namespace

void expect_every_mistake_is_refused(const std::string& name, const Trial& trial, const JobOptions& options,
                                     int ranks, size_t count) {
  Tensors expected = gradients(one_rank(), trial, {.precision = "fp64"});
  for (const std::string& without : trial.without_gradient) expected.erase(without);
  const plan::Plan plan =
      shipped_plan(trial.model(options), choose_strategy(booster_options_of(options)).host.plan_flags);
  const json policy = policy_of(plan);
  std::vector<Change> changes = changes_of(plan);
  const auto is_refused = [](const Change& change) { return change.fate == Fate::kRefused; };
  ASSERT_GT(std::count_if(changes.begin(), changes.end(), is_refused), 2);
  changes = slice(name, changes, count);
  changes.push_back({"nothing", Fate::kTrains, policy});
  changes.push_back(with_replicated_mlp(policy));
  const TemporaryFolder folder;
  for (size_t i = 0; i < changes.size(); ++i)
    folder.file(std::to_string(i) + ".json", changes[i].policy.dump());
  on_ranks({ranks}, [&](World& world) {
    for (size_t i = 0; i < changes.size(); ++i) {
      SCOPED_TRACE(name + " " + changes[i].what);
      JobOptions changed = options;
      json own = json::parse(options.options);
      own["custom_policy"] = folder.path() + "/" + std::to_string(i) + ".json";
      changed.options = own.dump();
      std::string refusal;
      Tensors found;
      try {
        found = gradients(world, trial, changed);
      } catch (const std::exception& error) {
        refusal = error.what();
      }
      const auto is_right = [&](const auto& item) {
        return is_near(found.at(item.first), item.second, trial.tolerance);
      };
      const bool trains = refusal.empty() && std::all_of(expected.begin(), expected.end(), is_right);
      const bool names_policy = refusal.find("policy \"broken\"") != std::string::npos;
      switch (changes[i].fate) {
        case Fate::kTrains:
          EXPECT_TRUE(trains) << refusal;
          break;
        case Fate::kRefused:
          EXPECT_TRUE(names_policy) << refusal;
          break;
        case Fate::kSeen:
          EXPECT_FALSE(trains);
          break;
        case Fate::kRefusedOrTrains:
          // A layer that gets other positions than it wants may be the one that refuses.
          EXPECT_TRUE(trains || !refusal.empty());
      }
    }
  });
}

}  // namespace weft::test

// A plan: which module runs which operation, what each rank keeps of its parameters. Plain
// data, made by build_plan from a shard policy; the same on every rank.
#pragma once

#include <weft/shard_policy.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/description.hpp"
#include "weft/plan.hpp"

namespace weft::plan {

std::string value_text(const Attribute& attribute);  // 3, true, "in_out"

struct Replacement {
  std::string pattern;
  std::string operation;
  std::vector<Attribute> attributes;  // all that the operation has, sorted by key, defaults filled in
  std::vector<PlannedNode> nodes;     // in natural order, never empty
};

struct DividedNode {
  std::string path;
  int64_t before = 0;
  int64_t after = 0;
};

struct Division {
  std::string pattern;
  std::string attribute;
  int64_t by = 1;
  std::vector<DividedNode> nodes;
};

// Asserted by the policy and declared by the model.
struct Tie {
  std::string first;
  std::string second;
};

struct Requirement {
  std::string key;
  int64_t divisor = 1;
  std::optional<int64_t> value;  // empty if the configuration leaves the key out (allowed for divisor 1)
};

struct Plan {
  std::string policy;  // the family; empty if the architecture has no policy
  std::string architecture;
  ParallelSizes sizes;
  std::vector<Replacement> replacements;  // in the order of the policy
  std::vector<Division> divisions;
  std::vector<Tie> ties;
  std::vector<Requirement> requirements;
  std::vector<PlannedNode> replicated;  // the nodes with parameters that no entry replaces
  int64_t num_parameters = 0;           // elements, tied ones once
  int64_t num_local_parameters = 0;     // of these on the first rank of the tensor axis, which has most
  std::string digest;                   // SHA-256 of canonical_text, hexadecimal
};

// A policy that can be run: the table of a plugin, or a file (plan/json_policy.hpp).
struct Policy {
  std::string name;
  std::function<weft_status(const weft_model_view*, const weft_parallel*, const weft_plan_builder*,
                            weft_error*)>
      build;
};
// Throws INVALID_ARGUMENT naming the architecture if the table has no build function or no plain name.
Policy policy_of(const weft_shard_policy& table, const std::string& architecture);

// Runs the policy twice, the second time with the nodes in another order, and validates the plan as a whole.
// Throws INVALID_ARGUMENT with every problem that was found: malformed patterns, patterns and names that
// match nothing (with the nearest), unknown operations and attributes, modules that an operation does not
// fit, two entries for one module, sizes that do not divide (with the nearest that do), ties that the model
// does not declare, tied parameters cut in different ways, a policy that refuses or is not deterministic.
Plan build_plan(const ModelDescription& model, const Policy& policy, const ParallelSizes& sizes);
inline Plan build_plan(const ModelDescription& model, const weft_shard_policy& table,
                       const ParallelSizes& sizes) {
  return build_plan(model, policy_of(table, model.architecture), sizes);
}

// The plan of an architecture without a policy: no entry. Throws FAILED_PRECONDITION naming the architecture
// if the tensor or the sequence axis has more than one rank.
Plan empty_plan(const ModelDescription& model, const ParallelSizes& sizes);

// One line for each thing in the plan that this version validates but does not perform; empty if it runs.
std::vector<std::string> unsupported(const Plan& plan);

// True if what the model gives as logits is this rank's part of them.
bool divides_logits(const Plan& plan);

// What the plan does to each module, sorted, one fact a line: equal texts mean equal plans, whatever the
// order of entries and the spelling of patterns.
std::string canonical_text(const Plan& plan);

// Every module by its kind, one line a kind, for people.
std::string list_modules(const ModelDescription& model);
// The plan as a table for people, one line an entry.
std::string explain(const Plan& plan);

}  // namespace weft::plan

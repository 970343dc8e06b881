// A plan: which operation each module runs and how its parameters are sharded. Plain data that build_plan
// makes from a shard policy, the same on every rank.
#pragma once

#include <weft/shard_policy.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/description.hpp"
#include "weft/operation.hpp"
#include "weft/plan.hpp"

namespace weft::plan {

// Returns the value as text: 3, true, "in_out".
std::string value_text(const Attribute& attribute);

// An entry that gives modules an operation.
struct Replacement {
  std::string pattern;
  std::string operation;
  std::vector<Attribute> attributes;  // complete: defaults filled in, sorted by key
  std::vector<PlannedNode> nodes;     // in natural order, never empty
};

// A module whose attribute an entry divides.
struct DividedNode {
  std::string path;
  int64_t before = 0;
  int64_t after = 0;
};

// An entry that divides an integer attribute of modules ("num_heads").
struct Division {
  std::string pattern;
  std::string attribute;
  int64_t by = 1;
  std::vector<DividedNode> nodes;
};

// Two names of one parameter, which the policy asserts and the model declares.
struct Tie {
  std::string first;
  std::string second;
};

// An entry that requires a value of the configuration to be a multiple of `divisor`.
struct Requirement {
  std::string key;
  int64_t divisor = 1;
  std::optional<int64_t> value;  // empty if the configuration leaves the key out (allowed for divisor 1)
};

// Layers that a transformation changes (transformations/transformation.hpp).
struct Transformed {
  std::string transformation;      // "plain_attention"
  std::string reason;              // "enable_flash_attention is false"
  std::vector<std::string> paths;  // in natural order, never empty
};

// What the ranks send for one module in each forward and backward, counted in elements.
struct PlannedTransfer {
  std::string path;
  Transfer::Kind kind;
  // `width` elements are sent for each position of `sequence`. In attention these are the queries, and
  // `source` is the sequence of the keys and values.
  std::string sequence;
  int64_t width = 0;
  std::string source;
  int64_t source_width = 0;
  // The elements of each gradient and the number of ranks that sum them.
  struct Gradient {
    int64_t elements = 0;
    uint32_t ranks = 1;
  };
  std::vector<Gradient> gradients;
};

// A complete plan.
struct Plan {
  std::string policy;  // its name; empty if the architecture has no policy
  std::string architecture;
  ParallelSizes sizes;
  std::vector<Replacement> replacements;  // in the order of the policy
  std::vector<Division> divisions;
  std::vector<Tie> ties;
  std::vector<Requirement> requirements;
  std::vector<PlannedNode> replicated;  // nodes that have parameters but no entry
  // Paths of norms and dropouts that see this rank's positions only, if tensor-parallel ranks split
  // sequences. They need no entry: the host sums the gradients of norms and gives ranks dropout masks of
  // their own.
  std::vector<std::string> on_split_sequence;
  std::vector<Transformed> transformed;    // by the host, in the order of the transformations
  std::vector<PlannedTransfer> transfers;  // of the modules that units run, in the order of the entries
  int64_t num_parameters = 0;              // elements of all parameters; tied ones count once
  int64_t num_local_parameters = 0;        // those on the first rank of the tensor axis, which has the most
  std::string digest;                      // SHA-256 of canonical_text, hexadecimal
};

// A policy that can be run: the table of a plugin, or a file (plan/json_policy.hpp).
struct Policy {
  std::string name;
  std::function<weft_status(weft_str name, const weft_model_view*, const weft_parallel*,
                            const weft_plan_builder*, weft_error*)>
      build;
};
// Returns the policy of a plugin's table, which was found under `name` and lives as long as the process.
// Throws INVALID_ARGUMENT if the table has no build function.
Policy policy_of(const weft_shard_policy& table, const std::string& name);

// Runs the policy and validates its plan. The policy runs a second time with the nodes in another order,
// which must give the same plan. Throws INVALID_ARGUMENT with every problem found: malformed patterns,
// patterns and names that match nothing (with the nearest), unknown operations and attributes, modules that
// an operation does not fit, two entries for one module, sizes that do not divide (with the nearest that do),
// ties that the model does not declare, tied parameters that are cut differently, and a policy that refuses
// or is not deterministic.
Plan build_plan(const ModelDescription& model, const Policy& policy, const ParallelSizes& sizes);

// Returns the plan of an architecture without a policy, which has no entries. Throws FAILED_PRECONDITION,
// naming the architecture, if the tensor or the sequence axis has more than one rank.
Plan empty_plan(const ModelDescription& model, const ParallelSizes& sizes);

// Returns one line for each part of the plan that is valid but cannot be run; empty if the plan can be
// applied.
std::vector<std::string> unsupported(const Plan& plan);

// Returns the value that an attribute of the module at `path` has on each rank after the plan's divisions.
int64_t local_value(const Plan& plan, const std::string& path, const DividableAttribute& attribute);

// Returns true if each rank's logits are a part of the model's: of the classes, or of the positions.
bool divides_logits(const Plan& plan);

// Returns what the plan does to each module, sorted, one fact per line. Plans that do the same have equal
// texts, whatever the order of their entries and the spelling of their patterns.
std::string canonical_text(const Plan& plan);

// Returns the modules for people to read, one line per kind.
std::string list_modules(const ModelDescription& model);
// Returns the plan as a table for people to read, one line per entry.
std::string explain(const Plan& plan);

// Returns true if the entry states `fact`.
bool states(const Replacement& entry, Fact fact);
// Returns true if at least one entry of the plan states `fact`.
bool states(const Plan& plan, Fact fact);
// Returns true if the transformation of this name changes at least one layer.
bool transforms(const Plan& plan, std::string_view transformation);

}  // namespace weft::plan

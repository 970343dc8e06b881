#include "plan/plan.hpp"

#include <weft/macros.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "axes/axis_sets.hpp"
#include "axes/cut.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/builder.hpp"
#include "plan/traffic.hpp"
#include "plan/validate.hpp"
#include "transformations/transformation.hpp"

namespace weft::plan {
namespace {

void check_sizes(const ParallelSizes& sizes) {
  for (const auto& [name, size] :
       {std::pair("tensor_size", sizes.tensor), std::pair("sequence_size", sizes.sequence),
        std::pair("pipeline_size", sizes.pipeline), std::pair("data_size", sizes.data)}) {
    if (size < 1) fail(WEFT_INVALID_ARGUMENT, "plan: {} is {}, must be at least 1", name, size);
  }
}

ModelDescription in_natural_order(ModelDescription model) {
  std::sort(model.nodes.begin(), model.nodes.end(),
            [](const Node& a, const Node& b) { return natural_less(a.path, b.path); });
  for (size_t i = 0; i < model.nodes.size(); ++i) {
    const Node& node = model.nodes[i];
    if (i > 0 && node.path == model.nodes[i - 1].path) {
      fail(WEFT_INVALID_ARGUMENT, "plan: {} has two modules at the path \"{}\"", model.architecture,
           node.path);
    }
    for (const ParameterShape& param : node.params) {
      if (param.shape.size() <= WEFT_MAX_DIMS) continue;
      fail(WEFT_INVALID_ARGUMENT, "plan: {}.{} has {} dimensions, at most {} may be", node.path, param.name,
           param.shape.size(), WEFT_MAX_DIMS);
    }
  }
  return model;
}

// Returns an order far from the first one, in which neighbours are apart: from the middle outwards.
std::vector<size_t> another_order(size_t size) {
  std::vector<size_t> order;
  for (size_t i = 0; i < size; ++i) order.push_back(i % 2 == 0 ? (size + i) / 2 : (size - i - 1) / 2);
  return order;
}

void check_determinism(const Recording& first, const Recording& second, std::vector<std::string>& problems) {
  const std::vector<std::string> a = first.lines(), b = second.lines();
  if (a == b) return;
  const auto [i, j] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  problems.push_back(
      fmt::format("the policy is not deterministic: it was run twice, the second time with the modules in "
                  "another order, and gave `{}`, "
                  "then `{}`; it may depend on nothing but the model's description and the sizes",
                  i == a.end() ? "nothing" : *i, j == b.end() ? "nothing" : *j));
}

[[noreturn]] void refuse(const std::string& policy, const Plan& plan,
                         const std::vector<std::string>& problems) {
  // Policies know the sizes by these names, jobs by those of the options.
  const std::string who = fmt::format(
      "plan: policy \"{}\" on {} (tensor_size {}, sequence_size {}: the options tp_size and sp_size)", policy,
      plan.architecture, plan.sizes.tensor, plan.sizes.sequence);
  if (problems.size() == 1) fail(WEFT_INVALID_ARGUMENT, "{}: {}", who, problems.front());
  fail(WEFT_INVALID_ARGUMENT, "{}: {} problems\n  {}", who, problems.size(), fmt::join(problems, "\n  "));
}

void finish(Plan& plan, const ModelDescription& model) {
  // A tied parameter counts once: as the canonical one, or if that belongs to no described module (but to the
  // model itself), as its alias.
  std::set<std::string> described, aliases;
  for (const Node& node : model.nodes)
    for (const ParameterShape& param : node.params) described.insert(node.path + "." + param.name);
  for (const TiedNames& tied : model.ties)
    if (described.contains(tied.canonical)) aliases.insert(tied.name);
  const auto count = [&](const PlannedNode& node) {
    for (const PlannedParameter& param : node.params) {
      if (aliases.contains(node.path + "." + param.name)) continue;
      plan.num_parameters += num_elements(param.shape);
      plan.num_local_parameters += num_elements(param.local(0));
    }
  };
  for (const Replacement& entry : plan.replacements)
    std::for_each(entry.nodes.begin(), entry.nodes.end(), count);
  std::for_each(plan.replicated.begin(), plan.replicated.end(), count);
  plan.transformed = transform(model, plan);
  plan.transfers = list_transfers(model, plan);
  plan.digest = sha256_hex(canonical_text(plan));
}

// Returns the runs that one rank keeps along a dimension: "0+4 12+4". A run that two ranks hold is "0+4x2".
std::string runs_text(const std::vector<Cut>& cuts, size_t place, size_t dim) {
  std::vector<std::string> texts;
  for (const SharedRun& shared : shared_runs(cuts, place, dim))
    texts.push_back(fmt::format("{}+{}{}", shared.run.begin, shared.run.count,
                                shared.holders.size() > 1 ? fmt::format("x{}", shared.holders.size()) : ""));
  return fmt::format("{}", fmt::join(texts, " "));
}

// Returns what each rank keeps: "dim 1 0+4 12+4|4+4 16+4", or for two dimensions "dim 0 0+2x2|0+2x2 dim 1
// 0+3|3+3".
std::string cut_text(const PlannedParameter& parameter) {
  std::vector<std::string> texts;
  for (const size_t dim : split_dims(parameter.shape, parameter.cuts)) {
    std::vector<std::string> places;
    for (size_t place = 0; place < parameter.cuts.size(); ++place)
      places.push_back(runs_text(parameter.cuts, place, dim));
    texts.push_back(fmt::format("dim {} {}", dim, fmt::join(places, "|")));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string canonical_params(const PlannedNode& node) {
  std::string text;
  for (const PlannedParameter& param : node.params) {
    text += fmt::format(" {}({})", param.name, fmt::join(param.shape, ","));
    if (const std::string cut = cut_text(param); !cut.empty()) text += fmt::format("->({})", cut);
    if (!is_within(param.partition_axes, tensor_axes()))
      text += fmt::format(" over {:#x}", param.partition_axes);
    if (param.gradient_axes != sample_axes()) text += fmt::format(" summed over {:#x}", param.gradient_axes);
  }
  return text;
}

}  // namespace

std::string value_text(const Attribute& attribute) {
  switch (attribute.kind) {
    case WEFT_KIND_BOOL:
      return attribute.integer != 0 ? "true" : "false";
    case WEFT_KIND_INT:
      return fmt::format("{}", attribute.integer);
    case WEFT_KIND_FLOAT:
      return fmt::format("{}", attribute.real);
    default:
      return nlohmann::json(attribute.text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
}

Policy policy_of(const weft_shard_policy& table, const std::string& name) {
  if (!WEFT_HAS(&table, weft_shard_policy, build)) {
    fail(WEFT_INVALID_ARGUMENT,
         "plan: the shard policy {} has no build function (struct_size {}, at least {} wanted)", name,
         table.struct_size, WEFT_END_OF(weft_shard_policy, build));
  }
  return {name, [&table](weft_str found_as, auto*... arguments) {
            return table.build(&table, found_as, arguments...);
          }};
}

Plan build_plan(const ModelDescription& unordered, const Policy& policy, const ParallelSizes& sizes) {
  check_sizes(sizes);
  const ModelDescription model = in_natural_order(unordered);
  std::vector<size_t> order(model.nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const Recording recording = record(model, order, policy, sizes);
  std::vector<std::string> problems;
  check_determinism(recording, record(model, another_order(order.size()), policy, sizes), problems);
  if (!recording.refusal.empty()) problems.push_back(recording.refusal);
  for (const std::string& reason : recording.rejections) problems.push_back(printable(reason, 2000));
  Plan plan = validate(model, sizes, recording, problems);
  if (!problems.empty()) refuse(policy.name, plan, problems);
  plan.policy = policy.name;
  finish(plan, model);
  return plan;
}

Plan empty_plan(const ModelDescription& unordered, const ParallelSizes& sizes) {
  check_sizes(sizes);
  for (const auto& [axis, size] :
       {std::pair("tensor_size", sizes.tensor), std::pair("sequence_size", sizes.sequence)}) {
    if (size == 1) continue;
    fail(WEFT_FAILED_PRECONDITION,
         "plan: {} is {}, but no shard policy for {} was found; set it to 1, or install a policy for this "
         "architecture",
         axis, size, unordered.architecture);
  }
  const ModelDescription model = in_natural_order(unordered);
  std::vector<std::string> problems;
  Plan plan = validate(model, sizes, {}, problems);
  finish(plan, model);
  return plan;
}

int64_t local_value(const Plan& plan, const std::string& path, const DividableAttribute& attribute) {
  for (const Division& division : plan.divisions)
    if (division.attribute == attribute.name)
      for (const DividedNode& node : division.nodes)
        if (node.path == path) return node.after;
  return attribute.value;
}

bool divides_logits(const Plan& plan) {
  return (plan.sizes.tensor > 1 && states(plan, Fact::kDividesLogits)) ||
         (plan.sizes.sequence > 1 && states(plan, Fact::kOwnPositions));
}

namespace {

std::string name_of_policy(const Plan& plan) {
  return plan.policy.empty() ? "a model without a policy" : fmt::format("policy \"{}\"", plan.policy);
}

// Returns "; "lm_head" -> weft.linear_vocab/1 does so with split = true" for the first entry that would state
// the fact if a flag were otherwise; "" if there is none.
std::string nearly_stated(const Plan& plan, Fact fact) {
  for (const Replacement& entry : plan.replacements) {
    const Operation* const operation = find_operation(entry.operation);
    if (operation == nullptr) continue;
    for (const Claim& claim : operation->claims)
      if (claim.fact == fact && !claim.key.empty())
        return fmt::format("; \"{}\" -> {} does so with {} = {}", entry.pattern, entry.operation, claim.key,
                           claim.value);
  }
  return "";
}

// Adds a line for each fact that a plan must state for a split sequence and does not.
void add_missing(const Plan& plan, std::vector<std::string>& reasons) {
  const auto require = [&](const std::vector<Fact>& facts, const char* what) {
    std::vector<std::string> operations;
    std::string nearly;
    for (const Fact fact : facts) {
      if (states(plan, fact)) return;
      operations.push_back(operations_that_state(fact));
      if (nearly.empty()) nearly = nearly_stated(plan, fact);
    }
    reasons.push_back(fmt::format(
        "policy \"{}\" has no entry {} ({}), so it cannot split sequences{}; {}leave "
        "enable_sequence_parallelism false",
        plan.policy, what, fmt::join(operations, " or "), nearly, nearly.empty() ? "" : "set that, or "));
  };
  if (plan.sizes.sequence_mode != "whole") require({Fact::kEndsSequence}, "that ends a split sequence");
  if (plan.sizes.sequence == 1) return;
  require({Fact::kBeginsSequence, Fact::kSplitsSequence}, "that begins a split sequence");
  require({Fact::kAttends}, "for attention to all positions");
}

}  // namespace

std::vector<std::string> unsupported(const Plan& plan) {
  std::vector<std::string> reasons = options_without_layers(plan);
  const ParallelSizes& sizes = plan.sizes;
  if (sizes.tensor > 1 && sizes.vocabulary_multiple > 1 && !states(plan, Fact::kSplitsVocabulary))
    reasons.push_back(fmt::format(
        "make_vocab_size_divisible_by is {}, but the plan of {} divides no vocabulary; leave it out",
        sizes.vocabulary_multiple, name_of_policy(plan)));
  if (sizes.sequence == 1 && states(plan, Fact::kOwnPositions))
    reasons.push_back(
        fmt::format("policy \"{}\" has split = true for {}, which makes the head compute the logits of this "
                    "rank's positions, but no sequence axis splits the positions; set split to "
                    "SPLIT_OVER_SEQUENCE_AXIS (weft/policy.h)",
                    plan.policy, operations_that_state(Fact::kOwnPositions)));
  add_missing(plan, reasons);
  return reasons;
}

std::string canonical_text(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Replacement& entry : plan.replacements) {
    std::string operation = entry.operation;
    for (const Attribute& attribute : entry.attributes)
      operation += fmt::format(" {}={}", attribute.key, value_text(attribute));
    for (const PlannedNode& node : entry.nodes) {
      lines.push_back(
          fmt::format("replace {} {} {}{}", node.path, node.kind, operation, canonical_params(node)));
    }
  }
  for (const PlannedNode& node : plan.replicated) {
    lines.push_back(fmt::format("keep {} {}{}", node.path, node.kind, canonical_params(node)));
  }
  for (const Division& entry : plan.divisions) {
    for (const DividedNode& node : entry.nodes) {
      lines.push_back(
          fmt::format("divide {} {} {}->{}", node.path, entry.attribute, node.before, node.after));
    }
  }
  for (const Transformed& transformed : plan.transformed) {
    for (const std::string& path : transformed.paths)
      lines.push_back(fmt::format("transform {} {}", path, transformed.transformation));
  }
  for (const Tie& tie : plan.ties) {
    lines.push_back(
        fmt::format("tie {} {}", std::min(tie.first, tie.second), std::max(tie.first, tie.second)));
  }
  for (const Requirement& entry : plan.requirements) {
    lines.push_back(fmt::format("require {} {}", entry.key, entry.divisor));
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return fmt::format("weft plan 1\narchitecture {}\npolicy {}\ntensor {}\nsequence {} mode {}\n{}{}",
                     plan.architecture, plan.policy, plan.sizes.tensor, plan.sizes.sequence,
                     plan.sizes.sequence_mode, fmt::join(lines, "\n"), lines.empty() ? "" : "\n");
}

bool states(const Replacement& entry, Fact fact) {
  const Operation* operation = find_operation(entry.operation);
  if (operation == nullptr) return false;
  return std::any_of(operation->claims.begin(), operation->claims.end(), [&](const Claim& claim) {
    return claim.fact == fact &&
           (claim.key.empty() || Attributes(entry.attributes).flag(claim.key) == claim.value);
  });
}

bool states(const Plan& plan, Fact fact) {
  return std::any_of(plan.replacements.begin(), plan.replacements.end(),
                     [&](const Replacement& entry) { return states(entry, fact); });
}

bool transforms(const Plan& plan, std::string_view transformation) {
  return std::any_of(plan.transformed.begin(), plan.transformed.end(),
                     [&](const Transformed& made) { return made.transformation == transformation; });
}

}  // namespace weft::plan

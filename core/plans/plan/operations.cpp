#include "plan/operations.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"

namespace weft::plan {
namespace {

const char* kind_name(uint32_t kind) {
  switch (kind) {
    case WEFT_KIND_BOOL:
      return "a flag";
    case WEFT_KIND_INT:
      return "an integer";
    case WEFT_KIND_FLOAT:
      return "a real number";
    case WEFT_KIND_TEXT:
      return "a text";
    case WEFT_KIND_JSON:
      return "JSON";
    default:
      return "no value";
  }
}

const AttributeRule* find_rule(const Operation& operation, std::string_view key) {
  const auto found = std::find_if(operation.attributes.begin(), operation.attributes.end(),
                                  [&](const AttributeRule& rule) { return rule.standard.key == key; });
  return found == operation.attributes.end() ? nullptr : &*found;
}

std::string known_keys(const Operation& operation) {
  if (operation.attributes.empty()) return "it has none";
  std::vector<std::string> keys;
  for (const AttributeRule& rule : operation.attributes) keys.push_back(rule.standard.key);
  return fmt::format("it has {}", fmt::join(keys, ", "));
}

std::string value_problem(const AttributeRule& rule, const Attribute& given) {
  if (given.kind != rule.standard.kind) {
    return fmt::format("is {}, must be {}", kind_name(given.kind), kind_name(rule.standard.kind));
  }
  if (given.kind == WEFT_KIND_INT && given.integer < rule.minimum) {
    return fmt::format("is {}, must be at least {}", given.integer, rule.minimum);
  }
  if (given.kind == WEFT_KIND_FLOAT &&
      !(std::isfinite(given.real) && given.real >= static_cast<double>(rule.minimum))) {
    return fmt::format("is {}, must be a number of at least {}", given.real, rule.minimum);
  }
  if (!rule.choices.empty() &&
      std::find(rule.choices.begin(), rule.choices.end(), given.text) == rule.choices.end()) {
    return fmt::format("is \"{}\", must be one of {}{}", printable(given.text), fmt::join(rule.choices, ", "),
                       did_you_mean(given.text, rule.choices));
  }
  return "";
}

}  // namespace

std::vector<Attribute> complete_attributes(const Operation& operation, const std::vector<Attribute>& given,
                                           std::vector<std::string>& problems) {
  std::vector<Attribute> complete;
  for (const AttributeRule& rule : operation.attributes) complete.push_back(rule.standard);
  std::vector<std::string> seen;
  for (Attribute attribute : given) {
    const AttributeRule* rule = find_rule(operation, attribute.key);
    if (rule != nullptr && rule->standard.kind == WEFT_KIND_FLOAT && attribute.kind == WEFT_KIND_INT) {
      attribute.kind = WEFT_KIND_FLOAT;  // 2 is 2.0
      attribute.real = static_cast<double>(std::exchange(attribute.integer, 0));
    }
    const std::string what = fmt::format("attribute \"{}\" of {}", printable(attribute.key), operation.id);
    if (!rule) {
      std::vector<std::string> keys;
      for (const AttributeRule& known : operation.attributes) keys.push_back(known.standard.key);
      problems.push_back(fmt::format("{} is unknown ({}){}", what, known_keys(operation),
                                     did_you_mean(attribute.key, keys)));
    } else if (std::find(seen.begin(), seen.end(), attribute.key) != seen.end()) {
      problems.push_back(fmt::format("{} is given twice", what));
    } else if (const std::string problem = value_problem(*rule, attribute); !problem.empty()) {
      problems.push_back(fmt::format("{} {}", what, problem));
    } else {
      complete[static_cast<size_t>(rule - operation.attributes.data())] = attribute;
    }
    seen.push_back(attribute.key);
  }
  return complete;
}

PlannedNode whole_node(const Node& node) {
  PlannedNode planned = {node.path, node.kind, {}};
  for (const ParameterShape& param : node.params) {
    planned.params.push_back({.name = param.name, .shape = param.shape});
  }
  return planned;
}

PlannedNode cut_node(const Node& node, const Operation& operation, const std::vector<Attribute>& attributes,
                     const ParallelSizes& sizes, std::vector<std::string>& problems) {
  PlannedNode planned = whole_node(node);
  if (std::find(operation.kinds.begin(), operation.kinds.end(), node.kind) == operation.kinds.end()) {
    problems.push_back(fmt::format("is of kind {}, but {} fits {} only", node.kind, operation.id,
                                   fmt::join(operation.kinds, " and ")));
    return planned;
  }
  if (operation.cut != nullptr) operation.cut(planned, {Attributes(attributes), sizes}, problems);
  return planned;
}

}  // namespace weft::plan

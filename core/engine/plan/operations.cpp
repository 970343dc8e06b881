#include "plan/operations.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/cut_rules.hpp"

namespace weft::plan {
namespace {

Attribute flag(std::string key, bool value = false) {
  return {.key = std::move(key), .kind = WEFT_KIND_BOOL, .integer = value};
}
Attribute integer(std::string key, int64_t value) {
  return {.key = std::move(key), .kind = WEFT_KIND_INT, .integer = value};
}
Attribute text(std::string key, std::string value) {
  return {.key = std::move(key), .kind = WEFT_KIND_TEXT, .text = std::move(value)};
}

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
  if (!rule.choices.empty() &&
      std::find(rule.choices.begin(), rule.choices.end(), given.text) == rule.choices.end()) {
    return fmt::format("is \"{}\", must be one of {}{}", printable(given.text), fmt::join(rule.choices, ", "),
                       did_you_mean(given.text, rule.choices));
  }
  return "";
}

const Attribute* find_attribute(const std::vector<Attribute>& attributes, std::string_view key) {
  const auto found =
      std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.key == key; });
  return found == attributes.end() ? nullptr : &*found;
}

SplitRule split_rule(Split split, const std::vector<Attribute>& attributes, std::string_view param) {
  const Attribute* layout = find_attribute(attributes, "layout");
  const bool in_out = layout && layout->text == "in_out";
  const bool is_weight = param == "weight";
  switch (split) {
    case Split::kColumn: {
      const auto value = [&](std::string_view key) { return find_attribute(attributes, key)->integer; };
      return {.dim = is_weight && in_out ? 1 : 0,
              .parts = value("fused"),
              .heads = value("heads"),
              .key_heads = value("key_heads"),
              .interleaved = value("interleaved") != 0};
    }
    case Split::kRow:
      return is_weight ? SplitRule{.dim = in_out ? 0 : 1} : SplitRule{};
    case Split::kChannels:
      return {.dim = 1};
    case Split::kVocabulary:
      return {.dim = 0, .equal = false};
    case Split::kNone:
      break;
  }
  return {};
}

// The layout in which a kind of node keeps its weight; empty if that is not its question.
std::string layout_of(const std::string& kind) {
  if (kind == "Conv1D") return "in_out";
  if (kind == "Linear") return "out_in";
  return "";
}

}  // namespace

const std::vector<Operation>& known_operations() {
  static const AttributeRule kLayout = {text("layout", "out_in"), {"out_in", "in_out"}};
  static const AttributeRule kFused = {.standard = integer("fused", 1), .choices = {}, .minimum = 1};
  const auto kHeads = [](const char* key) {
    return AttributeRule{.standard = integer(key, 0), .choices = {}, .minimum = 0};
  };
  const auto kFlag = [](const char* key) { return AttributeRule{.standard = flag(key), .choices = {}}; };
  // Of a layer that has two forms (nn::Fusible); elsewhere "fused" is a number of parts.
  static const AttributeRule kInOnePass = {.standard = flag("fused", true), .choices = {}};
  static const AttributeRule kFlash = {.standard = flag("flash", true), .choices = {}};
  static const AttributeRule kInput = {text("input", "own"), {"own", "shared", "entered"}};
  static const std::vector<Operation> kOperations = {
      {"weft.activation/1", {"Activation"}, {kInOnePass}, Split::kNone},
      {"weft.attention/1", {"Attention"}, {kFlash}, Split::kNone},
      {"weft.attention_bias/1", {"RelativeAttentionBias"}, {}, Split::kChannels},
      {"weft.cross_attention/1",
       {"Attention"},
       {kFlash, {.standard = text("source", ""), .choices = {}}},
       Split::kNone},
      {"weft.dropout/1", {"Dropout"}, {kInOnePass, kFlag("split")}, Split::kNone},
      {"weft.embedding/1", {"Embedding"}, {}, Split::kNone},
      {"weft.embedding_vocab/1", {"Embedding"}, {}, Split::kVocabulary},
      {"weft.layer_norm/1", {"LayerNorm"}, {kInOnePass, kFlag("split")}, Split::kNone},
      {"weft.linear_column/1",
       {"Conv1D", "Linear"},
       {kFused, kHeads("heads"), kInput, kFlag("interleaved"), kHeads("key_heads"), kLayout},
       Split::kColumn},
      {"weft.linear_row/1", {"Conv1D", "Linear"}, {kLayout}, Split::kRow},
      {"weft.linear_vocab/1", {"Linear"}, {kFlag("parallel_output"), kFlag("split")}, Split::kVocabulary},
      {"weft.parallel_input/1", {"Identity"}, {}, Split::kNone},
      {"weft.rms_norm/1", {"RMSNorm"}, {kInOnePass, kFlag("split")}, Split::kNone},
      {"weft.sequence_begin/1", {"Identity"}, {}, Split::kNone},
      {"weft.sequence_end/1", {"Identity"}, {}, Split::kNone},
  };
  return kOperations;
}

const Operation* find_operation(std::string_view id) {
  const std::vector<Operation>& operations = known_operations();
  const auto found =
      std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.id == id; });
  return found == operations.end() ? nullptr : &*found;
}

std::string unknown_operation(std::string_view id) {
  const std::string_view name = id.substr(0, id.rfind('/'));
  std::vector<std::string> ids;
  for (const Operation& operation : known_operations()) {
    ids.push_back(operation.id);
    if (std::string_view(operation.id).substr(0, operation.id.rfind('/')) == name) {
      return fmt::format("this host has the operation \"{}\", not its revision \"{}\"", operation.id, id);
    }
  }
  return fmt::format("no operation is called \"{}\"{} Known: {}", id,
                     nearest(id, ids) ? did_you_mean(id, ids) : std::string("."), fmt::join(ids, ", "));
}

std::vector<Attribute> complete_attributes(const Operation& operation, const std::vector<Attribute>& given,
                                           std::vector<std::string>& problems) {
  std::vector<Attribute> complete;
  for (const AttributeRule& rule : operation.attributes) complete.push_back(rule.standard);
  std::vector<std::string> seen;
  for (const Attribute& attribute : given) {
    const AttributeRule* rule = find_rule(operation, attribute.key);
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
  const Attribute* layout = find_attribute(attributes, "layout");
  if (layout && !layout_of(node.kind).empty() && layout->text != layout_of(node.kind)) {
    problems.push_back(fmt::format("is a {}, whose layout is \"{}\", but the entry says layout = \"{}\"",
                                   node.kind, layout_of(node.kind), layout->text));
    return planned;
  }
  if (const std::string problem = contradiction(split_rule(operation.split, attributes, "weight"));
      !problem.empty()) {
    problems.push_back(problem);
    return planned;
  }
  for (PlannedParameter& parameter : planned.params) {
    const SplitRule rule = split_rule(operation.split, attributes, parameter.name);
    if (rule.dim < 0) continue;
    const std::string problem = split_parameter(parameter, rule, sizes);
    if (!problem.empty()) problems.push_back(fmt::format("has a {} {}", parameter.name, problem));
  }
  return planned;
}

}  // namespace weft::plan

#include "plan/validate.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "axes/cut.hpp"
#include "base/text.hpp"
#include "operations/cut_rules.hpp"
#include "plan/operations.hpp"
#include "plan/pattern.hpp"
#include "plan/problems.hpp"
#include "plan/sequences.hpp"

namespace weft::plan {
namespace {

using Problems = std::vector<std::string>;

std::string list(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns true for "vendor.name/revision".
bool is_operation_id(std::string_view id) {
  const size_t slash = id.find('/');
  if (slash == id.npos) return false;
  const std::string_view name = id.substr(0, slash), revision = id.substr(slash + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (revision.empty() || revision[0] == '0' || !std::all_of(revision.begin(), revision.end(), is_digit))
    return false;
  const std::vector<std::string> words = split(name, '.');
  const auto dots = static_cast<size_t>(std::count(name.begin(), name.end(), '.'));
  return words.size() >= 2 && words.size() == dots + 1 && std::all_of(name.begin(), name.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '.';
         });
}

const DividableAttribute* find_attribute(const Node& node, std::string_view name) {
  const auto found =
      std::find_if(node.attributes.begin(), node.attributes.end(),
                   [&](const DividableAttribute& attribute) { return attribute.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}

// Returns "; it has num_heads, num_key_value_heads", or nothing if the node has no attributes.
std::string known_attributes(const Node& node) {
  std::vector<std::string> names;
  for (const DividableAttribute& attribute : node.attributes) names.push_back(attribute.name);
  return names.empty() ? "" : fmt::format("; it has {}", list(names));
}

// Validates the calls of a policy one kind after the other and builds the plan.
class Validator {
 public:
  Validator(const ModelDescription& model, const ParallelSizes& sizes, Problems& problems)
      : model_(model), problems_(problems) {
    plan_.architecture = model.architecture;
    plan_.sizes = sizes;
  }

  Plan run(const Recording& recording) {
    const ConfigView config(model_.config_json);
    const auto each = [&](const auto& entries, const auto& validate) {
      for (const auto& entry : entries) {
        const size_t before = problems_.size();
        validate(entry);
        for (size_t i = before; i < problems_.size(); ++i) problems_[i] = placed(entry.place, problems_[i]);
      }
    };
    each(recording.replaces, [&](const Recording::Replace& entry) { replace(entry); });
    each(recording.divides, [&](const Recording::Divide& entry) { divide(entry); });
    each(recording.ties, [&](const Recording::Tied& entry) { tie(entry.names); });
    each(recording.requires_divides, [&](const Recording::Require& entry) { require(entry, config); });
    collisions();
    keep_the_rest();
    keep_additions();
    check_tied_cuts();
    plan_.on_split_sequence = layers_on_split_sequence(model_, plan_);
    if (problems_.empty()) check_layers(model_, plan_, problems_);
    return std::move(plan_);
  }

 private:
  void replace(const Recording::Replace& entry) {
    const std::optional<Pattern> pattern = parse(entry.pattern, "replace");
    if (!pattern) return;
    const std::vector<const Node*> nodes = match(*pattern, "replace");
    const std::string who = fmt::format("replace \"{}\"", pattern->text());
    for (const Node* node : nodes) replaced_by_[node->path].push_back(plan_.replacements.size());
    Replacement replacement = {pattern->text(), entry.operation, {}, {}};
    const Operation* operation = find_operation(entry.operation);
    if (!is_operation_id(entry.operation)) {
      problems_.push_back(
          fmt::format("{}: \"{}\" is no operation id; one is like \"{}\": vendor.name in lower case, then "
                      "its revision",
                      who, printable(entry.operation), known_operations().front().id));
    } else if (!operation) {
      problems_.push_back(fmt::format("{}: {}", who, unknown_operation(entry.operation)));
    } else if (operation->add != nullptr) {
      problems_.push_back(fmt::format(
          "{}: {} adds parameters to a model, which a policy cannot; give it to Model::adapt or --adapter",
          who, operation->id));
    } else {
      fill(replacement, *operation, entry.attributes, nodes, who);
    }
    plan_.replacements.push_back(std::move(replacement));
    places_.push_back(entry.place);
  }

  void fill(Replacement& replacement, const Operation& operation, const std::vector<Attribute>& given,
            const std::vector<const Node*>& nodes, const std::string& who) {
    Problems wrong;
    replacement.attributes = complete_attributes(operation, given, wrong);
    for (const std::string& problem : wrong) problems_.push_back(fmt::format("{}: {}", who, problem));
    PerNode per_node;
    for (const Node* node : nodes) {
      Problems found;
      replacement.nodes.push_back(cut_node(*node, operation, replacement.attributes, plan_.sizes, found));
      for (const std::string& problem : found) per_node.add(node->path, problem);
    }
    tell(who, per_node);
  }

  // Adds each problem as "<who>: <paths> <problem>".
  void tell(const std::string& who, const PerNode& per_node) {
    for (const std::string& line : per_node.lines()) problems_.push_back(fmt::format("{}: {}", who, line));
  }

  void divide(const Recording::Divide& entry) {
    const std::optional<Pattern> pattern = parse(entry.pattern, "divide");
    if (!pattern) return;
    const std::string who = fmt::format("divide \"{}\"", pattern->text());
    if (entry.by < 1)
      problems_.push_back(fmt::format("{}: the divisor is {}, must be at least 1", who, entry.by));
    Division division = {pattern->text(), entry.attribute, entry.by, {}};
    PerNode per_node;
    for (const Node* node : match(*pattern, "divide")) {
      const DividableAttribute* found = find_attribute(*node, entry.attribute);
      if (found == nullptr) {
        per_node.add(node->path, fmt::format("({}) has no integer attribute \"{}\"{}", node->kind,
                                             printable(entry.attribute), known_attributes(*node)));
      } else if (!divided_.insert({node->path, entry.attribute}).second) {
        per_node.add(node->path, fmt::format("has its \"{}\" divided by an earlier entry", entry.attribute));
      } else if (entry.by >= 1 && (found->value < 1 || found->value % entry.by != 0)) {
        per_node.add(
            node->path,
            fmt::format("has {} {}, not a multiple of {}; the nearest sizes that divide it: {}",
                        entry.attribute, found->value, entry.by, nearest_divisors(found->value, entry.by)));
      } else if (entry.by >= 1) {
        division.nodes.push_back({node->path, found->value, found->value / entry.by});
      }
    }
    tell(who, per_node);
    plan_.divisions.push_back(std::move(division));
  }

  void tie(const Tie& entry) {
    const auto names = parameter_names();
    const std::string who =
        fmt::format("tie \"{}\" = \"{}\"", printable(entry.first), printable(entry.second));
    bool known = true;
    for (const std::string& name : {entry.first, entry.second}) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      known = false;
      problems_.push_back(fmt::format("{}: the model has no parameter \"{}\"; the nearest: {}", who,
                                      printable(name), list(nearest_names(name, compress_paths(names)))));
    }
    if (!known) return;
    std::vector<std::string> declared;
    for (const TiedNames& tied : model_.ties) {
      if (tied.name == entry.first && tied.canonical == entry.second) return plan_.ties.push_back(entry);
      if (tied.name == entry.second && tied.canonical == entry.first) return plan_.ties.push_back(entry);
      declared.push_back(fmt::format("{} = {}", tied.name, tied.canonical));
    }
    problems_.push_back(fmt::format("{}: the model does not tie them; it declares {}", who,
                                    declared.empty() ? "no tie" : list(declared)));
  }

  void require(const Recording::Require& entry, const ConfigView& config) {
    const std::string who = fmt::format("require_divides \"{}\" by {}", printable(entry.key), entry.divisor);
    const weft_kv* value = config.find(entry.key);
    if (entry.divisor < 1) {
      problems_.push_back(fmt::format("{}: the divisor must be at least 1", who));
    } else if (!value && entry.divisor > 1) {
      problems_.push_back(fmt::format("{}: the configuration has no such key{}", who,
                                      did_you_mean(entry.key, config.keys())));
    } else if (value && value->kind != WEFT_KIND_INT) {
      problems_.push_back(fmt::format("{}: the configuration's value is no integer", who));
    } else if (value && (value->integer < 1 || value->integer % entry.divisor != 0)) {
      problems_.push_back(
          fmt::format("\"{}\" is {}, not a multiple of {}; the nearest sizes that divide it: {}", entry.key,
                      value->integer, entry.divisor, nearest_divisors(value->integer, entry.divisor)));
    } else {
      plan_.requirements.push_back(
          {entry.key, entry.divisor, value ? std::optional(value->integer) : std::nullopt});
    }
  }

  std::optional<Pattern> parse(const std::string& text, const char* slot) {
    try {
      return Pattern::parse(text);
    } catch (const Error& error) {
      problems_.push_back(fmt::format("{}: {}", slot, error.what()));
      return std::nullopt;
    }
  }

  std::vector<const Node*> match(const Pattern& pattern, const char* slot) {
    std::vector<const Node*> nodes;
    std::vector<bool> found(pattern.alternatives().size());
    for (const Node& node : model_.nodes) {
      bool any = false;
      for (size_t i = 0; i < found.size(); ++i) {
        if (!glob_matches(pattern.alternatives()[i], node.path)) continue;
        any = found[i] = true;
      }
      if (any) nodes.push_back(&node);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i]) continue;
      std::vector<std::string> paths;
      for (const Node& node : model_.nodes) paths.push_back(node.path);
      problems_.push_back(fmt::format("{}: pattern \"{}\" matches no module; the nearest: {}", slot,
                                      pattern.alternatives()[i],
                                      list(nearest_names(pattern.alternatives()[i], compress_paths(paths)))));
    }
    return nodes;
  }

  void collisions() {
    std::map<std::vector<size_t>, std::vector<std::string>> groups;
    for (const Node& node : model_.nodes) {
      const auto found = replaced_by_.find(node.path);
      if (found != replaced_by_.end() && found->second.size() > 1) groups[found->second].push_back(node.path);
    }
    for (const auto& [entries, paths] : groups) {
      std::vector<std::string> named;
      for (const size_t entry : entries) {
        const Replacement& replacement = plan_.replacements[entry];
        named.push_back(placed(places_[entry], fmt::format("\"{}\" -> {}", replacement.pattern,
                                                           printable(replacement.operation))));
      }
      problems_.push_back(fmt::format("{} replaced by {} entries: {}; a module has one operation",
                                      list(compress_paths(paths)), entries.size(), list(named)));
    }
  }

  void keep_the_rest() {
    for (const Node& node : model_.nodes) {
      if (!node.params.empty() && !replaced_by_.contains(node.path))
        plan_.replicated.push_back(whole_node(node));
    }
  }

  // Returns the planned node at `path`, null if the plan does not have it.
  const PlannedNode* find_planned(const std::string& path) const {
    const auto in = [&](const std::vector<PlannedNode>& nodes) {
      const auto found =
          std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.path == path; });
      return found == nodes.end() ? nullptr : &*found;
    };
    for (const Replacement& replacement : plan_.replacements)
      if (const PlannedNode* found = in(replacement.nodes)) return found;
    return in(plan_.replicated);
  }

  // Plans the parameters that operations have added to layers. Each operation cuts them like the layer's own.
  void keep_additions() {
    std::vector<Replacement> entries;  // one for each operation
    PerNode per_node;
    for (const Node& node : model_.nodes) {
      if (!node.added) continue;
      const Operation* operation = find_operation(node.added->operation);
      if (operation == nullptr) {
        problems_.push_back(unknown_operation(node.added->operation));
        return;
      }
      PlannedNode planned = whole_node({node.path, node.kind, node.added->params});
      Problems found;
      if (operation->cut != nullptr)
        operation->cut(planned, {Attributes(node.added->attributes), plan_.sizes, find_planned(node.path)},
                       found);
      for (const std::string& problem : found) per_node.add(node.path, problem);
      if (entries.empty() || entries.back().operation != operation->id)
        entries.push_back({"", operation->id, node.added->attributes, {}});
      entries.back().nodes.push_back(std::move(planned));
    }
    for (Replacement& entry : entries) {
      std::vector<std::string> paths;
      for (const PlannedNode& node : entry.nodes) paths.push_back(node.path);
      entry.pattern = list(compress_paths(paths));
      plan_.replacements.push_back(std::move(entry));
    }
    tell("adapter", per_node);
  }

  // Reports tied parameters that are cut differently, because they are one tensor.
  void check_tied_cuts() {
    std::map<std::string, const PlannedParameter*> planned;
    const auto add = [&](const PlannedNode& node) {
      for (const PlannedParameter& param : node.params) planned[node.path + "." + param.name] = &param;
    };
    for (const Replacement& replacement : plan_.replacements)
      std::for_each(replacement.nodes.begin(), replacement.nodes.end(), add);
    std::for_each(plan_.replicated.begin(), plan_.replicated.end(), add);
    for (const TiedNames& tied : model_.ties) {
      const auto first = planned.find(tied.name), second = planned.find(tied.canonical);
      if (first == planned.end() || second == planned.end()) continue;
      const PlannedParameter &a = *first->second, &b = *second->second;
      if (a.is_cut_like(b)) continue;
      problems_.push_back(
          fmt::format("{} and {} are one parameter, but {} is {} and {} is {}; give both modules operations "
                      "that cut it alike",
                      tied.name, tied.canonical, tied.name, cut_text(a), tied.canonical, cut_text(b)));
    }
  }

  static std::string cut_text(const PlannedParameter& parameter) {
    const std::vector<size_t> dims = split_dims(parameter.shape, parameter.cuts);
    if (dims.empty()) return "not split";
    const std::vector<int64_t> local = parameter.local(0);
    std::vector<std::string> texts;
    for (const size_t dim : dims) {
      const size_t parts = shared_runs(parameter.cuts, 0, dim).size();
      texts.push_back(fmt::format("dimension {}{} ({} elements on the first rank)", dim,
                                  parts > 1 ? fmt::format(" in {} parts", parts) : "", local[dim]));
    }
    return fmt::format("split along {}", fmt::join(texts, " and "));
  }

  std::vector<std::string> parameter_names() const {
    std::vector<std::string> names;
    for (const Node& node : model_.nodes) {
      for (const ParameterShape& param : node.params) names.push_back(node.path + "." + param.name);
    }
    return names;
  }

  const ModelDescription& model_;
  Problems& problems_;
  Plan plan_;
  std::vector<std::string> places_;  // of the replacements, in their order
  std::map<std::string, std::vector<size_t>> replaced_by_;
  std::set<std::pair<std::string, std::string>> divided_;
};

}  // namespace

Plan validate(const ModelDescription& model, const ParallelSizes& sizes, const Recording& recording,
              Problems& problems) {
  problems.insert(problems.end(), recording.problems.begin(), recording.problems.end());
  return Validator(model, sizes, problems).run(recording);
}

}  // namespace weft::plan

#include <algorithm>
#include <array>

#include "axes/cut.hpp"
#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/plan.hpp"
#include "plan/problems.hpp"
#include "plan/traffic.hpp"

namespace weft::plan {
namespace {

// The columns: pattern, modules, operation, attributes, shapes.
using Row = std::array<std::string, 5>;

std::string join(const std::vector<std::string>& texts, const char* separator = ", ") {
  return fmt::format("{}", fmt::join(texts, separator));
}

// Returns the number of nodes and their merged paths.
template <class Nodes>
std::string modules(const Nodes& nodes) {
  std::vector<std::string> paths;
  for (const auto& node : nodes) paths.push_back(node.path);
  return fmt::format("{}: {}", nodes.size(), join(compress_paths(paths)));
}

// Returns the attributes that differ from the operation's defaults.
std::string attributes(const Replacement& entry) {
  std::vector<std::string> texts;
  const Operation* operation = find_operation(entry.operation);
  for (const Attribute& attribute : entry.attributes) {
    const bool is_standard =
        operation && std::any_of(operation->attributes.begin(), operation->attributes.end(),
                                 [&](const auto& rule) { return rule.standard == attribute; });
    if (!is_standard) texts.push_back(fmt::format("{} = {}", attribute.key, value_text(attribute)));
  }
  return texts.empty() ? "-" : join(texts);
}

// Returns the shapes of a node's parameters, whole and on one rank: "weight (8, 4) -> (4, 4)".
std::string shapes(const PlannedNode& node) {
  std::vector<std::string> texts;
  for (const PlannedParameter& param : node.params) {
    std::string text = fmt::format("{} ({})", param.name, fmt::join(param.shape, ", "));
    const std::vector<int64_t> first = param.local(0);
    if (first != param.shape) text += fmt::format(" -> ({})", fmt::join(first, ", "));
    if (!param.cuts.empty()) {
      const std::vector<int64_t> last = param.local(static_cast<uint32_t>(param.cuts.size()) - 1);
      if (last != first) text += fmt::format(" to ({}) on the last", fmt::join(last, ", "));
    }
    texts.push_back(std::move(text));
  }
  return texts.empty() ? "-" : join(texts);
}

std::string shapes(const std::vector<PlannedNode>& nodes) {
  std::vector<std::string> texts;
  for (const PlannedNode& node : nodes) add_once(texts, shapes(node));
  return join(texts, " | ");
}

// Returns the runs of a shard: "0..7 16..19 (2 ranks) 24..27 (2 ranks)".
std::string places(const std::vector<SharedRun>& shared) {
  std::vector<std::string> texts;
  for (const auto& [run, holders] : shared) {
    texts.push_back(fmt::format("{}..{}", run.begin, run.end() - 1));
    if (holders.size() > 1) texts.push_back(fmt::format("({} ranks)", holders.size()));
  }
  return join(texts, " ");
}

// Returns one line for each way in which the weights of an entry are cut into shards that have several runs
// or are held by several ranks, which their shapes do not show.
std::string cuts(const Replacement& entry) {
  std::vector<std::string> texts;
  for (const PlannedNode& node : entry.nodes) {
    for (const PlannedParameter& param : node.params) {
      if (param.name != "weight" || param.cuts.size() < 2) continue;
      for (const size_t dim : split_dims(param.shape, param.cuts)) {
        const std::vector<SharedRun> first = shared_runs(param.cuts, 0, dim);
        if (first.size() == 1 && first.front().holders.size() == 1) continue;
        std::vector<std::string> ranks;
        for (size_t place = 0; place < param.cuts.size(); ++place)
          ranks.push_back(places(shared_runs(param.cuts, place, dim)));
        add_once(texts,
                 fmt::format("cut         {}  dimension {}: {}\n", entry.pattern, dim, join(ranks, " | ")));
      }
    }
  }
  return join(texts, "");
}

std::string table(const std::vector<Row>& rows) {
  Row header = {"pattern", "modules", "operation", "attributes", "shape -> of one rank"};
  std::array<size_t, 5> widths = {};
  const auto measure = [&](const Row& row) {
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  };
  measure(header);
  std::for_each(rows.begin(), rows.end(), measure);
  std::string text;
  const auto print = [&](const Row& row) {
    text += "  ";
    for (size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{:<{}}{}", row[i], widths[i], i + 1 < row.size() ? "  " : "\n");
  };
  print(header);
  std::for_each(rows.begin(), rows.end(), print);
  return text;
}

std::string division(const Division& entry) {
  std::vector<std::string> values;
  for (const DividedNode& node : entry.nodes)
    add_once(values, fmt::format("{} -> {}", node.before, node.after));
  return fmt::format("divide      {}  {} {}  {}\n", entry.pattern, entry.attribute, join(values, " | "),
                     modules(entry.nodes));
}

std::string requirement(const Requirement& entry) {
  const std::string value = entry.value ? fmt::format("{}", *entry.value) : "(not in the configuration)";
  return fmt::format("require     {} = {} is a multiple of {}\n", entry.key, value, entry.divisor);
}

// Returns one line for each shape of replicated modules.
std::string replicated(const std::vector<PlannedNode>& nodes) {
  std::vector<std::string> seen;
  std::string text;
  for (const PlannedNode& node : nodes) {
    const std::string shape = shapes(node);
    if (std::find(seen.begin(), seen.end(), shape) != seen.end()) continue;
    seen.push_back(shape);
    std::vector<PlannedNode> alike;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(alike),
                 [&](const auto& other) { return shapes(other) == shape; });
    text += fmt::format("replicated  {}  {}\n", modules(alike), shape);
  }
  return text;
}

}  // namespace

std::string list_modules(const ModelDescription& model) {
  std::vector<Node> nodes = model.nodes;
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    return a.kind != b.kind ? a.kind < b.kind : natural_less(a.path, b.path);
  });
  std::string text;
  for (auto first = nodes.begin(); first != nodes.end();) {
    const auto last =
        std::find_if(first, nodes.end(), [&](const Node& node) { return node.kind != first->kind; });
    text += fmt::format("module      {}  {}\n", first->kind, modules(std::vector<Node>(first, last)));
    first = last;
  }
  return text;
}

std::string explain(const Plan& plan) {
  const std::string policy = plan.policy.empty()
                                 ? std::string("no policy, so every operation is the model's own")
                                 : fmt::format("policy {}", plan.policy);
  const std::string_view mode = plan.sizes.sequence_mode;
  std::string text =
      fmt::format("plan of {} ({}), tensor_size {}, sequence_size {}{}\n", plan.architecture, policy,
                  plan.sizes.tensor, plan.sizes.sequence, mode == "whole" ? "" : fmt::format(", {}", mode));
  std::vector<Row> rows;
  for (const Replacement& entry : plan.replacements) {
    rows.push_back(
        {entry.pattern, modules(entry.nodes), entry.operation, attributes(entry), shapes(entry.nodes)});
  }
  if (!rows.empty()) text += table(rows);
  for (const Replacement& entry : plan.replacements) text += cuts(entry);
  for (const Division& entry : plan.divisions) text += division(entry);
  for (const Tie& entry : plan.ties) text += fmt::format("tie         {} = {}\n", entry.first, entry.second);
  for (const Requirement& entry : plan.requirements) text += requirement(entry);
  text += replicated(plan.replicated);
  for (const Transformed& made : plan.transformed)
    text += fmt::format("transform   {}  {}: {}  {}\n", made.transformation, made.paths.size(),
                        join(compress_paths(made.paths)), made.reason);
  if (!plan.on_split_sequence.empty())
    text += fmt::format("split       {}: {}\n", plan.on_split_sequence.size(),
                        join(compress_paths(plan.on_split_sequence)));
  text += explain_transfers(plan);
  text += fmt::format("parameters  {}, {} on a rank of the tensor axis\n", plan.num_parameters,
                      plan.num_local_parameters);
  for (const std::string& reason : unsupported(plan)) text += fmt::format("refused     {}\n", reason);
  return text + fmt::format("digest      {}\n", plan.digest);
}

}  // namespace weft::plan

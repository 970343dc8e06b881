#include "plan/validate.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/check_sequences.hpp"
#include "plan/problems.hpp"
#include "plan/sequences.hpp"

namespace weft::plan {
namespace {

// A linear layer with its entry, null if it has none.
struct Linear {
  const Node* node;
  const Replacement* entry;
  int64_t in, out;

  bool is(Fact fact) const { return entry != nullptr && states(*entry, fact); }
  std::string_view text_of(std::string_view key) const {
    for (const Attribute& attribute : entry->attributes)
      if (attribute.key == key) return attribute.text;
    return "";
  }
  int64_t attribute(std::string_view key, int64_t otherwise) const {
    for (const Attribute& attribute : entry->attributes)
      if (attribute.key == key) return attribute.integer;
    return otherwise;
  }
};

class Checker {
 public:
  Checker(const ModelDescription& model, const Plan& plan) : model_(model), plan_(plan) {
    // Skip the entries of adapters. An adapter adds parameters to a layer and does not replace what the layer
    // computes, so the layer may need an entry of its own.
    for (const Replacement& entry : plan.replacements)
      if (const Operation* operation = find_operation(entry.operation);
          operation != nullptr && operation->add == nullptr)
        for (const PlannedNode& node : entry.nodes) entries_[node.path] = &entry;
    for (const Node& node : model.nodes) {
      if (node.kind == "Attention") attentions_.insert(node.path);
      add_linear(node);
    }
  }

  void run(std::vector<std::string>& problems) {
    if (plan_.sizes.tensor > 1) {
      for (const auto& [parent, layers] : linears_) check_region(parent, layers);
      for (const auto& [parent, layers] : linears_) check_beside(parent, layers);
      for (const Node& node : model_.nodes)
        if (node.kind == "Attention") check_heads(node);
      for (const Node& node : model_.nodes) check_norm_of_heads(node);
      check_entered();
    }
    if (plan_.sizes.tensor == 1)
      for (const Node& node : model_.nodes)
        if (node.kind == "Attention") check_undivided(node);
    if (plan_.sizes.tensor > 1 || plan_.sizes.sequence > 1)
      for (const Node& node : model_.nodes) {
        if (node.kind == "RelativeAttentionBias") check_position_bias(node, "weft.attention_bias/1");
        if (node.kind == "Alibi") check_position_bias(node, "weft.alibi/1");
      }
    // A plan in which no sequence ends is refused by unsupported().
    if (splits_sequences(plan_.sizes) && states(plan_, Fact::kEndsSequence))
      check_sequences(model_, plan_, entries_, found_);
    for (std::string& line : found_.lines()) problems.push_back(std::move(line));
  }

 private:
  using Linears = std::vector<Linear>;

  const Replacement* entry_of(const std::string& path) const {
    const auto found = entries_.find(path);
    return found == entries_.end() ? nullptr : found->second;
  }

  void add_linear(const Node& node) {
    if (node.kind != "Linear" && node.kind != "Conv1D") return;
    for (const ParameterShape& param : node.params) {
      if (param.name != "weight" || param.shape.size() != 2) continue;
      const size_t out = node.kind == "Conv1D" ? 1 : 0;
      linears_[parent_of(node.path)].push_back(
          {&node, entry_of(node.path), param.shape[1 - out], param.shape[out]});
    }
  }

  static Linears select(const Linears& layers, Fact fact) {
    Linears selected;
    std::copy_if(layers.begin(), layers.end(), std::back_inserter(selected),
                 [&](const Linear& layer) { return layer.is(fact); });
    return selected;
  }

  // Checks the linear layers of one parent, which begin and end a tensor-parallel region.
  void check_region(const std::string& parent, const Linears& layers) {
    const Linears columns = select(layers, Fact::kSplitsOutput), rows = select(layers, Fact::kSplitsInput);
    if (columns.empty() && rows.empty()) return;
    if (rows.size() == 1)
      for (const Linear& column : columns) check_parts(column, rows.front());
    if (rows.empty()) check_end(parent, columns);
    for (const Linear& layer : layers)
      if (layer.entry == nullptr) check_replicated(layer, columns, rows, attentions_.contains(parent));
  }

  // Checks that no column-parallel layer reads the features of another one, as the output projection of
  // attention would: its region has no end then, and a later layer would be blamed for it.
  void check_end(const std::string& parent, const Linears& columns) {
    constexpr size_t kProjections = 4;  // queries, keys, values and the output
    bool lacks_end = attentions_.contains(parent) && columns.size() >= kProjections;
    for (const Linear& first : columns)
      for (const Linear& column : columns) {
        const int64_t parts = first.attribute("fused", 1);
        if (&first == &column || column.in != first.out / parts) continue;
        // Where the first could read the second as well, only the order in which they run would tell.
        if (parts == 1 && first.in == column.out) {
          lacks_end |= column.in != column.out;
          continue;
        }
        found_.add(
            column.node->path,
            fmt::format("(\"{}\" -> {}) reads {} features, of which {} gives each rank a part; give it "
                        "weft.linear_row/1",
                        column.entry->pattern, column.entry->operation, column.in, text(first)));
        endless_.insert(parent);
        return;
      }
    if (!lacks_end) return;
    std::vector<std::string> names;
    for (const Linear& column : columns) names.push_back(text(column));
    found_.add(parent,
               fmt::format("has the column-parallel layers {} and no row-parallel one; give the one that "
                           "reads the features of the others weft.linear_row/1",
                           fmt::join(names, ", ")));
    endless_.insert(parent);
  }

  // Checks the layers of a module without any entry, beside modules that hold one end of a region each: the
  // layer before an activation may have one parent, and the layer after it another one.
  void check_beside(const std::string& parent, const Linears& layers) {
    const auto has_entry = [](const Linear& layer) { return layer.entry != nullptr; };
    if (parent.empty() || std::any_of(layers.begin(), layers.end(), has_entry)) return;
    Linears columns, rows;
    for (const auto& [other, beside] : linears_) {
      if (other.empty() || endless_.contains(other) ||
          (parent_of(other) != parent_of(parent) && other != parent_of(parent)))
        continue;
      const Linears begins = select(beside, Fact::kSplitsOutput), ends = select(beside, Fact::kSplitsInput);
      if (begins.empty() == ends.empty()) continue;  // a whole region, or none
      columns.insert(columns.end(), begins.begin(), begins.end());
      rows.insert(rows.end(), ends.begin(), ends.end());
    }
    // Both ends have their entries.
    if (columns.empty() == rows.empty()) return;
    for (const Linear& layer : layers) check_replicated(layer, columns, rows, false);
  }

  // Checks that a layer without an entry neither reads the features of a region nor computes them.
  void check_replicated(const Linear& layer, const Linears& columns, const Linears& rows, bool of_attention) {
    const auto find = [](const Linears& among, const auto& fits) -> const Linear* {
      const auto found = std::find_if(among.begin(), among.end(), fits);
      return found == among.end() ? nullptr : &*found;
    };
    const bool is_read = find(rows, [&](const Linear& row) { return row.in == layer.in; }) != nullptr;
    const Linear* before = find(columns, [&](const Linear& column) {
      return column.out / std::max<int64_t>(1, column.attribute("fused", 1)) == layer.in;
    });
    const Linear* like =
        find(columns, [&](const Linear& column) { return column.in == layer.in && column.out == layer.out; });
    const Linear* after = find(rows, [&](const Linear& row) {
      return layer.out % row.in == 0 &&
             find(columns, [&](const Linear& column) { return column.out % row.in == 0; }) == nullptr;
    });
    if (before != nullptr && !is_read)
      add(layer,
          fmt::format("reads {} features, of which {} gives each rank a part; give it weft.linear_row/1",
                      layer.in, text(*before)));
    else if (after != nullptr)
      add(layer, fmt::format("gives the features of which {} reads a part on each rank; give it "
                             "weft.linear_column/1",
                             text(*after)));
    else if (like != nullptr || (of_attention && !columns.empty()))
      add(layer, fmt::format("stands beside {}; give it weft.linear_column/1",
                             text(like != nullptr ? *like : columns.front())));
  }

  void add(const Linear& layer, const std::string& problem) {
    found_.add(
        layer.node->path,
        fmt::format("has no entry, but {}, or weft.linear/1 to compute all of it on every rank", problem));
  }

  // Checks that a weight with several parts side by side is cut part by part.
  void check_parts(const Linear& column, const Linear& row) {
    const bool one_part = column.attribute("fused", 0) == 1 && column.attribute("heads", 0) == 0;
    if (!one_part || column.out % row.in != 0 || column.out / row.in < 2) return;
    const int64_t parts = column.out / row.in;
    found_.add(
        column.node->path,
        fmt::format(
            "(\"{}\" -> {}) gives {} output features, but {} of the same module reads {}: it has {} parts, "
            "each of which must be split; give it fused = {}, or heads = N if each of N heads has all parts",
            column.entry->pattern, column.entry->operation, column.out, leaf_of(row), row.in, parts, parts));
  }

  // Returns "c_fc ("h.*.mlp.c_fc" -> weft.linear_column/1)".
  static std::string text(const Linear& layer) { return entry_text(leaf_of(layer), *layer.entry); }

  static std::string leaf_of(const Linear& layer) {
    return layer.node->path.substr(layer.node->path.rfind('.') + 1);
  }

  // Checks that attention whose projections are split has the number of heads of this rank.
  void check_heads(const Node& node) {
    const auto found = linears_.find(node.path);
    if (found == linears_.end()) return;
    const Linears columns = select(found->second, Fact::kSplitsOutput);
    const int64_t ranks = plan_.sizes.tensor;
    for (const DividableAttribute& attribute : node.attributes) {
      const int64_t here = local_value(plan_, node.path, attribute);
      const int64_t wanted =
          columns.empty() ? attribute.value : std::max<int64_t>(1, attribute.value / ranks);
      if (here == wanted) continue;
      if (columns.empty())
        found_.add(
            node.path,
            fmt::format("has its {} = {} divided, but none of its linear layers is column-parallel; give "
                        "them weft.linear_column/1, or leave the divide entry out",
                        attribute.name, attribute.value));
      else
        found_.add(node.path,
                   fmt::format("has {} = {} on each rank, but {} gives it the features of {} heads; divide "
                               "\"{}\" by {} (DIVIDE in C)",
                               attribute.name, here, text(columns.front()), wanted, attribute.name,
                               attribute.value / wanted));
    }
  }

  // Checks that no heads are divided where every rank computes the features of all of them. A sequence mode
  // that gives each rank some heads divides them by itself.
  void check_undivided(const Node& node) {
    for (const Division& division : plan_.divisions)
      for (const DividedNode& divided : division.nodes)
        if (divided.path == node.path && divided.after != divided.before)
          found_.add(
              node.path,
              fmt::format("has {} = {} on each rank (divide \"{}\" by {}), but gets the features of {} "
                          "heads, because no tensor axis splits its projections; divide by the size of "
                          "the tensor axis, since sequence modes divide heads by themselves",
                          division.attribute, divided.after, division.pattern, division.by, divided.before));
  }

  // Checks that exactly the norms of heads have split = true. A norm of heads is a part of attention and
  // normalizes what a column-parallel layer computes, which is the heads of this rank. The input of any other
  // norm is the same on all tensor-parallel ranks.
  void check_norm_of_heads(const Node& node) {
    if (node.kind != "LayerNorm" && node.kind != "RMSNorm") return;
    const std::string parent = parent_of(node.path);
    const auto beside = linears_.find(parent);
    const Linears columns = beside == linears_.end() || !attentions_.contains(parent)
                                ? Linears()
                                : select(beside->second, Fact::kSplitsOutput);
    if (is_norm_inside_region(node, entry_of(node.path))) {
      if (columns.empty())
        found_.add(
            node.path,
            "has split = true, but is no norm of heads (no column-parallel layer of the same attention "
            "computes its input), so the gradients of its parameters would count once for each rank; "
            "leave split out");
      return;
    }
    if (columns.empty() || node.params.empty() || columns.front().in == node.params.front().shape.front())
      return;
    found_.add(node.path, fmt::format("normalizes the heads that {} gives this rank, so the gradients of its "
                                      "parameters would be incomplete; give its entry split = true",
                                      text(columns.front())));
  }

  // Checks that the plan has weft.parallel_input/1, which all-reduces the gradient of an input, exactly if
  // column-parallel layers leave their all-reduce to it (input = entered). Which layers read the output of
  // that module is not in the description of the model.
  void check_entered() {
    constexpr std::string_view kEnters = "weft.parallel_input/1";
    Linears entered;
    for (const auto& [parent, layers] : linears_)
      std::copy_if(layers.begin(), layers.end(), std::back_inserter(entered), [](const Linear& layer) {
        return layer.entry != nullptr && layer.text_of("input") == "entered";
      });
    const auto enters = std::find_if(
        plan_.replacements.begin(), plan_.replacements.end(),
        [&](const Replacement& entry) { return entry.operation == kEnters && !entry.nodes.empty(); });
    const bool sums = enters != plan_.replacements.end();
    for (const Linear& layer : entered)
      if (!sums)
        found_.add(layer.node->path,
                   fmt::format("(\"{}\" -> {}) has input = entered, but no entry is {}, so nobody sums the "
                               "gradients of its input; give that to the module before the layer, or leave "
                               "input out",
                               layer.entry->pattern, layer.entry->operation, kEnters));
    if (sums && entered.empty())
      for (const PlannedNode& node : enters->nodes)
        found_.add(node.path,
                   fmt::format("(\"{}\" -> {}) sums the gradients of what it gives, but no column-parallel "
                               "layer has input = entered, so they are summed twice; give that to the layers "
                               "that read it, or leave the entry out",
                               enters->pattern, kEnters));
  }

  // Checks that a position bias computes the heads and the queries that its attention has on this rank.
  void check_position_bias(const Node& node, std::string_view operation) {
    const std::string parent = parent_of(node.path);
    const bool has_part_of_heads =
        std::any_of(plan_.divisions.begin(), plan_.divisions.end(), [&](const Division& division) {
          return std::any_of(division.nodes.begin(), division.nodes.end(), [&](const DividedNode& divided) {
            return divided.path == parent && divided.after < divided.before;
          });
        });
    if (const Replacement* entry = entry_of(node.path); entry != nullptr) {
      if (plan_.sizes.tensor > 1 && attentions_.contains(parent) && !has_part_of_heads)
        found_.add(
            node.path,
            fmt::format("(\"{}\" -> {}) computes the bias of this rank's part of the heads, but {} has "
                        "all of its heads on each rank; divide the heads of {} (DIVIDE in C){}",
                        entry->pattern, entry->operation, parent, parent,
                        plan_.sizes.sequence > 1 ? "" : ", or leave the entry out"));
      return;
    }
    if (plan_.sizes.sequence > 1)
      found_.add(node.path,
                 fmt::format("has no entry, so it computes the bias of this rank's positions only, but "
                             "sequences are split; give it {}",
                             operation));
    else if (has_part_of_heads)
      found_.add(
          node.path,
          fmt::format("has no entry, so it computes the bias of all heads, of which {} has a part on each "
                      "rank; give it {}",
                      parent, operation));
  }

  const ModelDescription& model_;
  const Plan& plan_;
  EntriesByPath entries_;
  std::map<std::string, Linears> linears_;  // by the path of the parent
  std::set<std::string> attentions_;        // paths of the attention layers
  std::set<std::string> endless_;           // paths of modules whose region has no end
  PerNode found_;
};

}  // namespace

void check_layers(const ModelDescription& model, const Plan& plan, std::vector<std::string>& problems) {
  Checker(model, plan).run(problems);
}

}  // namespace weft::plan

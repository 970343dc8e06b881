// Linear layers whose output features (column parallel) or input features (row parallel) are sharded.
#include <weft/shard_policy.h>

#include "base/text.hpp"
#include "operations/attribute_rules.hpp"
#include "plan/cut_rules.hpp"

namespace weft::operations {

namespace {

using plan::Attributes;
using plan::CutRequest;
using plan::PlannedNode;
using plan::PlannedParameter;
using plan::SplitRule;
using Problems = std::vector<std::string>;

plan::AttributeRule layout() {
  return text("layout", "out_in", {"out_in", "in_out"},
              "how the weight lies: out_in in a Linear, in_out in a Conv1D");
}

bool is_in_out(const Attributes& attributes) {
  return attributes.text("layout") == "in_out";
}

// Returns true if the entry's layout is that of the node. Otherwise adds a problem.
bool has_layout(const PlannedNode& node, const Attributes& attributes, Problems& problems) {
  const char* own = node.kind == "Conv1D" ? "in_out" : "out_in";
  if (attributes.text("layout") == own) return true;
  problems.push_back(fmt::format("is a {}, whose layout is \"{}\", but the entry says layout = \"{}\"",
                                 node.kind, own, attributes.text("layout")));
  return false;
}

void add(Problems& problems, const PlannedParameter& param, const std::string& problem) {
  if (!problem.empty()) problems.push_back(fmt::format("has a {} {}", param.name, problem));
}

void cut_columns(PlannedNode& node, const CutRequest& request, Problems& problems) {
  const Attributes& attributes = request.attributes;
  if (!has_layout(node, attributes, problems)) return;
  SplitRule rule = {.dim = 0,
                    .parts = attributes.integer("fused"),
                    .heads = attributes.integer("heads"),
                    .key_heads = attributes.integer("key_heads"),
                    .interleaved = attributes.flag("interleaved")};
  if (const std::string problem = contradiction(rule); !problem.empty()) {
    problems.push_back(problem);
    return;
  }
  for (PlannedParameter& param : node.params) {
    rule.dim = param.name == "weight" && is_in_out(attributes) ? 1 : 0;
    add(problems, param, split_parameter(param, rule, request.sizes));
  }
}

void cut_rows(PlannedNode& node, const CutRequest& request, Problems& problems) {
  const Attributes& attributes = request.attributes;
  if (!has_layout(node, attributes, problems)) return;
  for (PlannedParameter& param : node.params)
    if (param.name == "weight")
      add(problems, param, split_parameter(param, {.dim = is_in_out(attributes) ? 0 : 1}, request.sizes));
}

}  // namespace

plan::Operation linear_column() {
  return {
      .id = "weft.linear_column/1",
      .documentation = "computes this rank's output features from the whole input",
      .kinds = {"Conv1D", "Linear"},
      .attributes = {integer("fused", 1, 1, "parts that lie side by side and are each split by themselves"),
                     integer("heads", 0, 0,
                             "heads of the first part, which stay whole; 0: features are split one by one"),
                     text("input", "own", {"own", "shared", "entered"},
                          "shared: read by every such layer of this parent, so that its gradient is summed "
                          "once; entered: "
                          "it is in the region already"),
                     flag("interleaved", false, "the parts take turns by groups of heads"),
                     integer("key_heads", 0, 0,
                             "heads of every part but the first; 0: as many as of the first"),
                     layout()},
      .communication = {.keeps = "some output features of weight and bias",
                        .backward = "the gradient of the input, and that of heads which several ranks hold"},
      .cut = cut_columns};
}

plan::Operation linear_row() {
  return {.id = "weft.linear_row/1",
          .documentation = "sums the products of the ranks' input features, then adds the bias",
          .kinds = {"Conv1D", "Linear"},
          .attributes = {layout()},
          .communication = {.keeps = "some input features of the weight; the bias is whole",
                            .forward = "the output"},
          .cut = cut_rows};
}

}  // namespace weft::operations

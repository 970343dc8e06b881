// Linear layers whose output features (column parallel) or input features (row parallel) are sharded.
#include <weft/shard_policy.h>

#include "base/text.hpp"
#include "operations/attribute_rules.hpp"
#include "weft/split_parameter.hpp"

namespace weft::operations {

namespace {

using plan::Attributes;
using plan::CutRequest;
using plan::PlannedNode;
using plan::PlannedParameter;
using plan::SplitRule;
using Kind = plan::Transfer::Kind;
using Problems = std::vector<std::string>;

plan::AttributeRule layout() {
  return text("layout", "out_in", {"out_in", "in_out"},
              "layout of the weight: out_in in a Linear, in_out in a Conv1D");
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

plan::Operation linear() {
  return {.id = "weft.linear/1",
          .documentation = "replicated: computes the whole layer from this rank's positions",
          .kinds = {"Conv1D", "Linear"},
          .attributes = {},
          .keeps = "all",
          .transfers = {{Kind::kOwnGradients}}};
}

plan::Operation linear_column() {
  return {
      .id = "weft.linear_column/1",
      .documentation = "column parallel: computes this rank's output features from the whole input",
      .kinds = {"Conv1D", "Linear"},
      .attributes =
          {integer(
               "fused", 1, 1,
               "number of parts side by side in the output features, each of which is sharded separately"),
           integer("heads", 0, 0, "heads of the first part, which are never cut; 0 shards single features"),
           text("input", "own", {"own", "shared", "entered"},
                "own: the gradient of the input is reduced for this layer; shared: once for all such "
                "layers of the parent, which read the same input; entered: by weft.parallel_input/1"),
           flag("interleaved", false, "the parts alternate by groups of heads"),
           integer("key_heads", 0, 0, "heads of every other part; 0: as many as the first part has"),
           layout()},
      .keeps = "its output features of weight and bias",
      .transfers = {{Kind::kEnterLinear, "input", "own"},
                    {Kind::kEnterLinearShared, "input", "shared"},
                    {Kind::kSharedGradients}},
      .cut = cut_columns,
      .claims = {{plan::Fact::kSplitsOutput}}};
}

plan::Operation linear_row() {
  return {.id = "weft.linear_row/1",
          .documentation =
              "row parallel: multiplies this rank's input features, sums the products over the ranks and "
              "adds the bias",
          .kinds = {"Conv1D", "Linear"},
          .attributes = {layout()},
          .keeps = "its input features of the weight, and the whole bias",
          .transfers = {{Kind::kLeaveLinear}, {Kind::kOwnGradients}},
          .cut = cut_rows,
          .claims = {{plan::Fact::kSplitsInput}}};
}

}  // namespace weft::operations

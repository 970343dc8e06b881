#include "apply/describe_model.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "weft/nn/addition.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/parameter_names.hpp"

namespace weft::plan {
namespace {

// The order in which units run modules.
class Order {
 public:
  explicit Order(nn::Model& model) {
    std::map<const torch::nn::Module*, size_t> used;
    for (const nn::Unit* unit : model.units())
      for (const torch::nn::Module* module : unit->modules()) used.try_emplace(module, used.size());
    if (const auto found = used.find(&model); found != used.end()) places_[""] = found->second;
    for (const auto& item : model.named_modules("", /*include_self=*/false))
      if (const auto found = used.find(item.value().get()); found != used.end())
        places_[item.key()] = found->second;
  }
  // Returns the place of the module, or of the innermost module around it that a unit names.
  size_t of(std::string path) const {
    while (true) {
      if (const auto found = places_.find(path); found != places_.end()) return found->second;
      if (path.empty()) return std::numeric_limits<size_t>::max();
      path = parent_of(path);
    }
  }

 private:
  std::map<std::string, size_t, std::less<>> places_;  // by path in the model
};

// Describes a module without its parameters.
Node describe_module(std::string path, const std::shared_ptr<torch::nn::Module>& module, size_t order) {
  Node node;
  node.path = std::move(path);
  node.order = order;
  node.kind = "Module";
  if (const auto layer = std::dynamic_pointer_cast<nn::Layer>(module)) {
    node.kind = layer->kind();
    for (const auto& [name, value] : layer->attributes())
      node.attributes.push_back({std::string(name), *value});
  }
  return node;
}

// Returns the second names of tied parameters, which belong to no layer.
std::set<std::string> second_names(const nn::Model& model) {
  std::set<std::string> names, tied;
  for (const nn::Tie& tie : model.ties()) tied.insert({tie.name, tie.canonical});
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    if (std::dynamic_pointer_cast<nn::ParameterNames>(item.value()))
      for (const auto& param : item.value()->named_parameters(/*recurse=*/false))
        if (std::string name = item.key() + "." + param.key(); tied.contains(name))
          names.insert(std::move(name));
  return names;
}

// Adds the parameters of an addition to the node of its layer.
void describe_addition(const std::string& path, const nn::Addition& addition, std::vector<Node>& nodes) {
  const size_t dot = path.rfind('.');
  const std::string layer = path.substr(0, dot), name = path.substr(dot + 1);
  const auto node =
      std::find_if(nodes.rbegin(), nodes.rend(), [&](const Node& n) { return n.path == layer; });
  if (node == nodes.rend()) fail(WEFT_INTERNAL, "{} is added to no layer", path);
  if (!node->added) node->added = {addition.operation, addition.attributes, {}};
  for (const auto& param : addition.named_parameters(/*recurse=*/false))
    node->added->params.push_back({name + "." + param.key(), param.value().sizes().vec()});
}

}  // namespace

std::string planned_name(std::string_view name, std::string_view base_prefix) {
  return std::string(name.substr(name.starts_with(base_prefix) ? base_prefix.size() : 0));
}

ModelDescription describe_model(nn::Model& model) {
  ModelDescription description;
  description.architecture = model.architecture();
  description.config_json = model.config().dump();
  const std::string prefix = model.base_prefix();
  const Order order(model);
  const std::set<std::string> second = second_names(model);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (item.key() + "." == prefix) continue;
    const std::string path = planned_name(item.key(), prefix);
    if (const auto addition = std::dynamic_pointer_cast<nn::Addition>(item.value())) {
      describe_addition(path, *addition, description.nodes);
      continue;
    }
    Node node = describe_module(path, item.value(), order.of(item.key()));
    for (const auto& param : item.value()->named_parameters(/*recurse=*/false))
      if (!second.contains(item.key() + "." + param.key()))
        node.params.push_back({param.key(), param.value().sizes().vec()});
    description.nodes.push_back(std::move(node));
  }
  for (const nn::Tie& tie : model.ties()) {
    if (second.contains(tie.name) || second.contains(tie.canonical)) continue;
    description.ties.push_back({planned_name(tie.name, prefix), planned_name(tie.canonical, prefix)});
  }
  return description;
}

std::string explain_model(nn::Model& model, const std::optional<Policy>& policy, const ParallelSizes& sizes) {
  const ModelDescription description = describe_model(model);
  return list_modules(description) +
         explain(policy ? build_plan(description, *policy, sizes) : empty_plan(description, sizes));
}

}  // namespace weft::plan

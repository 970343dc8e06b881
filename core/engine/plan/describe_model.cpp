#include "plan/describe_model.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "weft/nn/addition.hpp"
#include "weft/nn/layers.hpp"

namespace weft::plan {
namespace {

Node describe_module(std::string path, const std::shared_ptr<torch::nn::Module>& module) {
  Node node;
  node.path = std::move(path);
  node.kind = "Module";
  if (const auto layer = std::dynamic_pointer_cast<nn::Layer>(module)) {
    node.kind = layer->kind();
    node.attribute = [layer](std::string_view name) -> std::optional<int64_t> {
      const int64_t* value = layer->attribute(name);
      return value ? std::optional(*value) : std::nullopt;
    };
  }
  for (const auto& param : module->named_parameters(/*recurse=*/false)) {
    node.params.push_back({param.key(), param.value().sizes().vec()});
  }
  return node;
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

ModelDescription describe_model(const nn::Model& model) {
  ModelDescription description;
  description.architecture = model.architecture();
  description.config_json = model.config().dump();
  const std::string prefix = model.base_prefix();
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (item.key() + "." == prefix) continue;
    const std::string path = planned_name(item.key(), prefix);
    if (const auto addition = std::dynamic_pointer_cast<nn::Addition>(item.value()))
      describe_addition(path, *addition, description.nodes);
    else
      description.nodes.push_back(describe_module(path, item.value()));
  }
  for (const nn::Tie& tie : model.ties()) {
    description.ties.push_back({planned_name(tie.name, prefix), planned_name(tie.canonical, prefix)});
  }
  return description;
}

std::string explain_model(const nn::Model& model, const std::optional<Policy>& policy,
                          const ParallelSizes& sizes) {
  const ModelDescription description = describe_model(model);
  return list_modules(description) +
         explain(policy ? build_plan(description, *policy, sizes) : empty_plan(description, sizes));
}

}  // namespace weft::plan

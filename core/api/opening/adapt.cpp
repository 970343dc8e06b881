// Adapts the layers of a model.
#include <nlohmann/json.hpp>

#include "apply/adapter.hpp"
#include "apply/describe_model.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "opening/library_operations.hpp"
#include "opening/model_state.hpp"
#include "operations/registry.hpp"
#include "plan/builder.hpp"
#include "plan/operations.hpp"
#include "plan/pattern.hpp"
#include "weft/nn/addition.hpp"

namespace weft {

namespace {

constexpr size_t kLongestFile = 1 << 20;

struct Wanted {
  const plan::Operation* operation;
  plan::Pattern pattern;
  std::vector<plan::Attribute> attributes;
};

std::string text_of(const nlohmann::json& object, const char* key, const std::string& source) {
  if (!object.contains(key) || !object.at(key).is_string())
    fail(WEFT_INVALID_ARGUMENT,
         "{} has no text \"{}\"; an adapter is {{\"operation\": ID, \"on\": PATTERN, ATTRIBUTE: VALUE, ...}}",
         source, key);
  return object.at(key).get<std::string>();
}

Wanted parse(const nlohmann::json& object, const std::string& source) {
  if (!object.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be an object", source, json_kind(object));
  const std::string id = text_of(object, "operation", source);
  find_library_operations();
  const plan::Operation* operation = plan::find_operation(id);
  if (operation == nullptr) fail(WEFT_NOT_FOUND, "{}: {}", source, plan::unknown_operation(id));
  if (operation->add == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "{}: {} adds no parameters; it is for shard policies", source, id);
  std::vector<plan::Attribute> given;
  for (const auto& [key, value] : object.items())
    if (key != "operation" && key != "on") given.push_back(plan::to_attribute(key, value));
  std::vector<std::string> problems;
  std::vector<plan::Attribute> attributes = plan::complete_attributes(*operation, given, problems);
  if (!problems.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: {}", source, fmt::join(problems, "; "));
  return {operation, plan::Pattern::parse(text_of(object, "on", source)), std::move(attributes)};
}

// Returns the paths of the layers that the adapter's pattern matches.
std::vector<std::string> matched_layers(nn::Model& model, const Wanted& wanted, const std::string& source) {
  std::vector<std::string> paths, all;
  for (const plan::Node& node : plan::describe_model(model).nodes) {
    all.push_back(node.path);
    if (!wanted.pattern.matches(node.path)) continue;
    const std::vector<std::string>& kinds = wanted.operation->kinds;
    if (std::find(kinds.begin(), kinds.end(), node.kind) == kinds.end())
      fail(WEFT_INVALID_ARGUMENT, "{}: {} is of kind {}, but {} fits {} only", source, node.path, node.kind,
           wanted.operation->id, fmt::join(kinds, " and "));
    paths.push_back(node.path);
  }
  if (paths.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" matches no module of {}; the nearest: {}", source,
         wanted.pattern.text(), model.architecture(),
         fmt::join(plan::nearest_names(wanted.pattern.text(), plan::compress_paths(all)), ", "));
  return paths;
}

// Returns the JSON text of an adapter that is given as such or as a file.
std::string json_text(const std::string& adapter) try {
  return adapter.starts_with('{') ? adapter : read_file(adapter, kLongestFile);
} catch (const Error& error) {
  fail(error.status(), "adapter \"{}\" is neither a JSON object nor a file that can be read: {}", adapter,
       error.what());
}

}  // namespace

void Model::adapt(const std::string& adapter) {
  nn::Model& model = module();
  const std::string source = adapter.starts_with('{') ? "adapter" : "adapter " + adapter;
  if (shared().training != nullptr || shared().divided || adapter_of(model))
    fail(WEFT_FAILED_PRECONDITION, "{}: {} is {} already; open it again", source, architecture(),
         adapter_of(model) ? "adapted" : "boosted");
  const Wanted wanted = parse(parse_json(json_text(adapter), source), source);
  const std::vector<std::string> paths = matched_layers(model, wanted, source);
  shared().adapter = adapter;
  for (const at::Tensor& parameter : model.parameters()) parameter.set_requires_grad(false);
  const std::string prefix = model.base_prefix();
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (std::find(paths.begin(), paths.end(), plan::planned_name(item.key(), prefix)) == paths.end())
      continue;
    auto& layer = dynamic_cast<nn::Layer&>(*item.value());
    wanted.operation->add(layer, plan::Attributes(wanted.attributes));
    for (const auto& child : layer.children()) {
      const auto addition = std::dynamic_pointer_cast<nn::Addition>(child);
      if (addition == nullptr) continue;
      addition->operation = wanted.operation->id;
      addition->attributes = wanted.attributes;
    }
  }
}

}  // namespace weft

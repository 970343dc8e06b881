#include "apply/adapter.hpp"

#include <memory>

#include "operations/registry.hpp"
#include "plan/description.hpp"
#include "weft/nn/addition.hpp"

namespace weft {

std::optional<Adapter> adapter_of(const nn::Model& model) {
  std::optional<Adapter> adapter;
  const auto modules = model.named_modules("", /*include_self=*/false);
  for (const auto& item : modules) {
    const auto addition = std::dynamic_pointer_cast<nn::Addition>(item.value());
    if (addition == nullptr) continue;
    if (!adapter) adapter = {plan::find_operation(addition->operation), addition->attributes, {}, {}};
    const std::string path = plan::parent_of(item.key());
    if (adapter->layers.empty() || adapter->layers.back().path != path)
      adapter->layers.push_back({path, std::dynamic_pointer_cast<nn::Layer>(modules[path])->kind(), {}});
    for (const auto& parameter : addition->named_parameters(/*recurse=*/false))
      adapter->parameters.push_back(item.key() + "." + parameter.key());
  }
  return adapter;
}

}  // namespace weft

#include "weft/nn/unit.hpp"

#include <algorithm>

namespace weft::nn {

namespace {

class FunctionUnit final : public Unit {
 public:
  FunctionUnit(std::string name, const std::vector<torch::nn::Module*>& modules,
               std::function<void(State&)> forward)
      : Unit(std::move(name)), forward_(std::move(forward)) {
    for (torch::nn::Module* module : modules) uses(*module);
  }
  void forward(State& state) override { forward_(state); }

 private:
  const std::function<void(State&)> forward_;
};

}  // namespace

std::unique_ptr<Unit> make_unit(std::string name, std::vector<torch::nn::Module*> modules,
                                std::function<void(State&)> forward) {
  return std::make_unique<FunctionUnit>(std::move(name), modules, std::move(forward));
}

bool is_layer(const Unit& unit) {
  const std::string_view name = unit.name();
  const size_t dot = name.rfind('.');
  return dot != name.npos && dot + 1 < name.size() &&
         name.find_first_not_of("0123456789", dot + 1) == name.npos;
}

torch::nn::Module& submodule(torch::nn::Module& parent, std::string_view path) {
  torch::nn::Module* module = &parent;
  while (!path.empty()) {
    const std::string name(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    const auto children = module->named_children();
    const std::shared_ptr<torch::nn::Module>* const found = children.find(name);
    module = found != nullptr
                 ? found->get()
                 : module->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
  }
  return *module;
}

}  // namespace weft::nn

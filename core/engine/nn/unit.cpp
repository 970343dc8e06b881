#include "weft/nn/unit.hpp"

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

}  // namespace weft::nn

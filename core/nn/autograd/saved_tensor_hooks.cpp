#include "autograd/saved_tensor_hooks.hpp"

#include <torch/csrc/autograd/engine.h>

namespace weft {

namespace {
thread_local const SavedTensorHooks* innermost = nullptr;
}

class HookedEngine final : public torch::autograd::Engine {
 public:
  static Engine& instance() {
    static auto* const engine = new HookedEngine;  // never destroyed: threads of the engine outlive main
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return innermost && innermost->make_ ? innermost->make_() : nullptr;
  }
};

SavedTensorHooks::SavedTensorHooks(Make make) : make_(std::move(make)), outer_(innermost) {
  innermost = this;
}
SavedTensorHooks::~SavedTensorHooks() {
  innermost = outer_;
}

void SavedTensorHooks::install() {
  torch::autograd::set_default_engine_stub(&HookedEngine::instance);
}

}  // namespace weft

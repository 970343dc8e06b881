// Default saved-tensor hooks, as torch.autograd.graph.saved_tensors_hooks in Python. libtorch offers them to
// Python only: it asks its default autograd engine for them, so Weft installs an engine that returns them.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace weft {

// While an object of this class lives, every tensor that an operation of this thread saves for backward
// passes through the hooks that it makes.
class SavedTensorHooks {
 public:
  using Make = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;
  // Calls `make` for each saved tensor. An empty function disables the hooks of enclosing objects.
  explicit SavedTensorHooks(Make make);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;

  // Installs Weft's engine as the default engine. Call it once per process, before the first graph whose
  // saved tensors are hooked.
  static void install();

 private:
  Make make_;
  const SavedTensorHooks* outer_;
  friend class HookedEngine;
};

}  // namespace weft

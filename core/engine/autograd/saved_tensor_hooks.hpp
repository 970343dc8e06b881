// Default saved-tensor hooks for C++: while a guard lives, every tensor that an operation saves for backward
// goes through the hooks that `make` makes. libtorch offers this to Python only; the engine asks its default
// engine for them, so Weft installs an engine of its own that answers.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace weft {

class SavedTensorHooks {
 public:
  using Make = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;
  explicit SavedTensorHooks(Make make);  // an empty function: no hooks, whatever stands outside
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;

  // Makes Weft's engine the default one; once per process, before the first graph that is to be hooked.
  static void install();

 private:
  Make make_;
  const SavedTensorHooks* outer_;
  friend class HookedEngine;
};

}  // namespace weft

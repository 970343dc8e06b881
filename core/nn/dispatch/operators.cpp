#include "dispatch/operators.hpp"

#include <torch/library.h>

namespace weft {

TORCH_LIBRARY(weft, library) {
  operators::for_each([&](auto each) { library.def(each.kSchema); });
}

// The engine's autograd functions call the operators. Without this, libtorch would box each call in order to
// refuse its backward.
TORCH_LIBRARY_IMPL(weft, Autograd, library) {
  operators::for_each([&](auto each) { library.impl(each.kName, torch::CppFunction::makeFallthrough()); });
}

}  // namespace weft

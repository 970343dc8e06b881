// Decides whether backward may reuse the memory of a saved tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace weft::nn {

// Returns true if no one but the running backward function can read `saved`, an unpacked saved variable, so
// that the function may overwrite it.
inline bool last_reader(const at::Tensor& saved) {
  constexpr size_t kSavedAndUnpacked = 2;
  return !torch::autograd::get_current_graph_task_keep_graph() && saved.use_count() <= kSavedAndUnpacked &&
         saved.storage().use_count() == 1;
}

}  // namespace weft::nn

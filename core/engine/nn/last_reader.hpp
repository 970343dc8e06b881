// Whether a saved tensor's memory may be written over in backward.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace weft::nn {

// True if nobody but this backward can read `saved`, a saved variable as it was unpacked, any more.
inline bool last_reader(const at::Tensor& saved) {
  constexpr size_t kSavedAndUnpacked = 2;
  return !torch::autograd::get_current_graph_task_keep_graph() && saved.use_count() <= kSavedAndUnpacked &&
         saved.storage().use_count() == 1;
}

}  // namespace weft::nn

// Where the elements of this rank's part of a parameter lie in the whole.
#pragma once

#include <functional>

#include "checkpoint/box.hpp"
#include "training/handles.hpp"

namespace weft {

// The boxes of the whole parameter that elements [begin, begin + count) of this rank's part make up, in their
// order. `values` holds those elements, flat; `visit` gets for each box the view of them, of its extent.
void for_each_box(const weft_param& param, int64_t begin, int64_t count, const at::Tensor& values,
                  const std::function<void(const checkpoint::Box& box, const at::Tensor& values)>& visit);

}  // namespace weft

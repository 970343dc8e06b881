#include "streams/region.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "streams/node.hpp"

namespace weft::parallel {

at::Tensor enter(const at::Tensor& x, const Communicator& ranks) {
  if (ranks.size() == 1) return x;
  return with_gradient(x, x, [ranks](const at::Tensor& gradient) {
    // Autograd may pass the same tensor to other nodes, so the all-reduce must not overwrite it.
    at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
    ranks.all_reduce(sum).wait();
    return sum;
  });
}

at::Tensor leave(const at::Tensor& partial, const Communicator& ranks) {
  if (ranks.size() == 1) return partial;
  const at::Tensor sum = partial.detach().contiguous();
  ranks.all_reduce(sum).wait();
  return with_gradient(sum, partial, [](const at::Tensor& gradient) { return gradient; });
}

at::Tensor gather_last(const at::Tensor& part, const std::vector<int64_t>& sizes, const Communicator& ranks) {
  at::DimVector shape(part.sizes());
  shape.back() = *std::max_element(sizes.begin(), sizes.end());
  const at::Tensor padded = at::zeros(shape, part.options());
  padded.narrow(-1, 0, part.size(-1)).copy_(part.detach());
  shape.insert(shape.begin(), static_cast<int64_t>(sizes.size()));
  const at::Tensor all = at::empty(shape, part.options());
  ranks.all_gather(all, padded).wait();
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    parts.push_back(all.select(0, static_cast<int64_t>(rank)).narrow(-1, 0, sizes[rank]));
    if (static_cast<int>(rank) < ranks.rank()) begin += sizes[rank];
  }
  return with_gradient(at::cat(parts, -1), part, [begin, count = part.size(-1)](const at::Tensor& gradient) {
    return gradient.narrow(-1, begin, count).contiguous();
  });
}

}  // namespace weft::parallel

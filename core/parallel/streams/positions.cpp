#include "streams/positions.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <map>

#include "base/text.hpp"

namespace weft::parallel {

at::Tensor Positions::of(int rank, const at::Tensor& whole, int64_t dim) const {
  std::vector<at::Tensor> pieces;
  for (const Run& segment : of(rank, whole.size(dim)))
    pieces.push_back(whole.narrow(dim, segment.begin, segment.count));
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces, dim);
}

std::function<at::Tensor()> Positions::start_gathering(const at::Tensor& part, int64_t total) const {
  const at::NoGradGuard no_grad;
  if (part.size(1) != count(ranks_.rank(), total))
    fail(WEFT_INTERNAL, "a part of {} positions does not belong to a sequence of {} over {} ranks",
         part.size(1), total, ranks_.size());
  at::DimVector shape(part.sizes());
  shape[1] = segments().most(total);
  at::Tensor own = part.detach();
  if (own.size(1) != shape[1]) {
    own = at::zeros(shape, part.options());
    own.narrow(1, 0, part.size(1)).copy_(part);
  }
  shape.insert(shape.begin(), ranks_.size());
  const at::Tensor all = at::empty(shape, part.options());
  Work work = ranks_.all_gather(all, own.contiguous());
  return [*this, all, total, work]() mutable {
    work.wait();
    return in_order(all, total);
  };
}

at::Tensor Positions::in_order(const at::Tensor& all, int64_t total) const {
  const at::NoGradGuard no_grad;
  std::map<int64_t, at::Tensor> pieces;  // by first position
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    int64_t begin = 0;
    for (const Run& segment : of(rank, total)) {
      if (segment.count > 0) pieces[segment.begin] = all.select(0, rank).narrow(1, begin, segment.count);
      begin += segment.count;
    }
  }
  std::vector<at::Tensor> ascending;
  for (const auto& [begin, piece] : pieces) ascending.push_back(piece);
  return at::cat(ascending, 1);
}

at::Tensor Positions::scattered(const at::Tensor& partial) const {
  const at::NoGradGuard no_grad;
  const int64_t total = partial.size(1), most = segments().most(total);
  at::DimVector shape(partial.sizes());
  shape[1] = most;
  shape.insert(shape.begin(), ranks_.size());
  const at::Tensor all = most * ranks_.size() == total ? at::empty(shape, partial.options())
                                                       : at::zeros(shape, partial.options());
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    int64_t begin = 0;
    for (const Run& segment : of(rank, total)) {
      all.select(0, rank)
          .narrow(1, begin, segment.count)
          .copy_(partial.narrow(1, segment.begin, segment.count));
      begin += segment.count;
    }
  }
  shape.erase(shape.begin());
  const at::Tensor own = at::empty(shape, partial.options());
  ranks_.reduce_scatter(own, all).wait();
  return own.narrow(1, 0, count(ranks_.rank(), total)).contiguous();
}

}  // namespace weft::parallel

#include "parallel/region.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "parallel/node.hpp"

namespace weft::parallel {

namespace {

using torch::autograd::variable_list;

at::Tensor summed(const at::Tensor& gradient, const Communicator& ranks) {
  // Autograd may hand the same gradient to others, so not over its memory.
  const at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
  ranks.all_reduce(sum).wait();
  return sum;
}

class SumOfGradients final : public torch::autograd::Node {
 public:
  explicit SumOfGradients(Communicator ranks) : ranks_(std::move(ranks)) {}
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {summed(gradients[0], ranks_)};
  }
  std::string name() const override { return "SumOfGradients"; }

 private:
  Communicator ranks_;
};

class Unchanged final : public torch::autograd::Node {
 public:
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
  std::string name() const override { return "Unchanged"; }
};

class SliceOfGradient final : public torch::autograd::Node {
 public:
  SliceOfGradient(int64_t begin, int64_t count) : begin_(begin), count_(count) {}
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {gradients[0].narrow(-1, begin_, count_).contiguous()};
  }
  std::string name() const override { return "SliceOfGradient"; }

 private:
  int64_t begin_, count_;
};

}  // namespace

at::Tensor enter(const at::Tensor& x, const Communicator& ranks) {
  return with_node<SumOfGradients>(x.detach(), x, ranks);
}

at::Tensor leave(const at::Tensor& partial, const Communicator& ranks) {
  const at::Tensor sum = partial.detach().contiguous();
  ranks.all_reduce(sum).wait();
  return with_node<Unchanged>(sum, partial);
}

at::Tensor gather_last(const at::Tensor& part, const std::vector<int64_t>& sizes, const Communicator& ranks) {
  const int64_t most = *std::max_element(sizes.begin(), sizes.end());
  at::DimVector shape(part.sizes());
  shape.back() = most;
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
  return with_node<SliceOfGradient>(at::cat(parts, -1), part, begin, part.size(-1));
}

at::Tensor SharedInput::enter(const at::Tensor& x) {
  if (left_ == 0 || !outside_.is_same(x)) {
    outside_ = x;
    inside_ = parallel::enter(x, ranks_);
    left_ = readers_;
  }
  const at::Tensor inside = inside_;
  if (--left_ == 0) {  // nothing is held between forwards
    outside_.reset();
    inside_.reset();
  }
  return inside;
}

}  // namespace weft::parallel

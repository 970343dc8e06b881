#include "parallel/sequence.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/text.hpp"
#include "nn/linear.hpp"
#include "parallel/node.hpp"

namespace weft::parallel {

namespace {

// The positions of one rank.
struct Positions {
  Positions(int64_t total, int rank, int ranks)
      : begin(total * rank / ranks), count(total * (rank + 1) / ranks - begin) {}
  int64_t begin, count;
};

int64_t most_positions(int64_t total, int ranks) {
  return (total + ranks - 1) / ranks;
}

at::Tensor gathered(const at::Tensor& part, int64_t total, const Communicator& ranks) {
  const int size = ranks.size();
  if (part.size(1) != Positions(total, ranks.rank(), size).count)
    fail(WEFT_INTERNAL, "a part of {} positions does not belong to a sequence of {} over {} ranks",
         part.size(1), total, size);
  at::DimVector shape(part.sizes());
  shape[1] = most_positions(total, size);
  at::Tensor own = part.detach();
  if (own.size(1) != shape[1]) {
    own = at::zeros(shape, part.options());
    own.narrow(1, 0, part.size(1)).copy_(part.detach());
  }
  shape.insert(shape.begin(), size);
  const at::Tensor all = at::empty(shape, part.options());
  ranks.all_gather(all, own.contiguous()).wait();
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank)
    parts.push_back(all.select(0, rank).narrow(1, 0, Positions(total, rank, size).count));
  return at::cat(parts, 1);
}

at::Tensor scattered(const at::Tensor& partial, const Communicator& ranks) {
  const int size = ranks.size();
  const int64_t total = partial.size(1), most = most_positions(total, size);
  at::DimVector shape(partial.sizes());
  shape[1] = most;
  shape.insert(shape.begin(), size);
  const at::Tensor all =
      total % size == 0 ? at::empty(shape, partial.options()) : at::zeros(shape, partial.options());
  for (int rank = 0; rank < size; ++rank) {
    const Positions positions(total, rank, size);
    all.select(0, rank)
        .narrow(1, 0, positions.count)
        .copy_(partial.detach().narrow(1, positions.begin, positions.count));
  }
  shape.erase(shape.begin());
  const at::Tensor own = at::empty(shape, partial.options());
  ranks.reduce_scatter(own, all).wait();
  const int64_t count = Positions(total, ranks.rank(), size).count;
  return count == most ? own : own.narrow(1, 0, count).contiguous();
}

class GatherOfGradients final : public torch::autograd::Node {
 public:
  GatherOfGradients(int64_t total, Communicator ranks) : total_(total), ranks_(std::move(ranks)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {gathered(gradients[0], total_, ranks_)};
  }
  std::string name() const override { return "GatherOfGradients"; }

 private:
  int64_t total_;
  Communicator ranks_;
};

class ScatterOfGradients final : public torch::autograd::Node {
 public:
  explicit ScatterOfGradients(Communicator ranks) : ranks_(std::move(ranks)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {scattered(gradients[0], ranks_)};
  }
  std::string name() const override { return "ScatterOfGradients"; }

 private:
  Communicator ranks_;
};

class OwnPositionsOfGradient final : public torch::autograd::Node {
 public:
  explicit OwnPositionsOfGradient(Communicator ranks) : ranks_(std::move(ranks)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {own_positions(gradients[0], ranks_).contiguous()};
  }
  std::string name() const override { return "OwnPositionsOfGradient"; }

 private:
  Communicator ranks_;
};

}  // namespace

at::Tensor own_positions(const at::Tensor& whole, const Communicator& ranks) {
  const Positions positions(whole.size(1), ranks.rank(), ranks.size());
  return whole.narrow(1, positions.begin, positions.count);
}

at::Tensor scatter_sum(const at::Tensor& partial, const Communicator& ranks) {
  return with_node<GatherOfGradients>(scattered(partial, ranks), partial, partial.size(1), ranks);
}

at::Tensor gather_positions(const at::Tensor& part, const SequenceSplit& split) {
  return with_node<OwnPositionsOfGradient>(gathered(part, split.total, split.ranks), part, split.ranks);
}

at::Tensor gather_into_region(const at::Tensor& part, const SequenceSplit& split) {
  return with_node<ScatterOfGradients>(gathered(part, split.total, split.ranks), part, split.ranks);
}

// The gathered input once more, in backward: for the first of the readers, kept until the last has it.
struct GatheredInput::Again {
  int64_t total;
  Communicator ranks;
  int64_t readers, left = 0;
  at::Tensor whole;

  at::Tensor take(const torch::autograd::SavedVariable& part) {
    if (left == 0) {
      whole = gathered(part.unpack(), total, ranks);
      left = readers;
    }
    const at::Tensor taken = whole;
    if (--left == 0) whole.reset();
    return taken;
  }
};

// The product of a gathered input, which keeps this rank's positions alone.
class GatheredInput::Product final : public torch::autograd::Node {
 public:
  Product(const at::Tensor& part, const at::Tensor& weight, bool biased, nn::Linear::Layout layout,
          std::shared_ptr<Again> again)
      : part_(part, /*is_output=*/false),
        weight_(weight, /*is_output=*/false),
        biased_(biased),
        layout_(layout),
        again_(std::move(again)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];
    torch::autograd::variable_list result(biased_ ? 3 : 2);
    if (!dy.defined()) return result;
    const at::Tensor weight = weight_.unpack();
    result[0] = nn::linear_input_gradient(dy, weight, layout_);
    // Gathered on every rank alike, frozen or not.
    result[1] = nn::linear_weight_gradient(dy, again_->take(part_), layout_);
    if (biased_) result[2] = nn::linear_bias_gradient(dy);
    return result;
  }
  void release_variables() override {
    part_.reset_data();
    weight_.reset_data();
  }
  std::string name() const override { return "GatheredProduct"; }

 private:
  torch::autograd::SavedVariable part_, weight_;
  const bool biased_;
  const nn::Linear::Layout layout_;
  std::shared_ptr<Again> again_;
};

GatheredInput::GatheredInput(std::shared_ptr<const SequenceSplit> split, int64_t readers)
    : split_(std::move(split)), readers_(readers) {}
GatheredInput::~GatheredInput() = default;

at::Tensor GatheredInput::linear(const at::Tensor& part, const at::Tensor& weight, const at::Tensor& bias,
                                 nn::Linear::Layout layout) {
  if (left_ == 0 || !outside_.is_same(part)) {
    const auto& [ranks, total] = *split_;
    outside_ = part;
    inside_ = gather_into_region(part, *split_);
    again_ = std::make_shared<Again>(Again{total, ranks, readers_, 0, {}});
    left_ = readers_;
  }
  at::Tensor result;
  {
    const at::NoGradGuard no_graph;
    result = nn::linear(inside_, weight, bias, layout);
  }
  if (at::GradMode::is_enabled()) {
    torch::autograd::variable_list inputs = {inside_, weight};
    if (bias.defined()) inputs.push_back(bias);
    const std::shared_ptr<Product> node(new Product(part, weight, bias.defined(), layout, again_),
                                        torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(inputs));
    torch::autograd::set_history(result, node);
  }
  if (--left_ == 0) {  // nothing is held between forwards
    outside_.reset();
    inside_.reset();
    again_.reset();
  }
  return result;
}

}  // namespace weft::parallel

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "base/text.hpp"
#include "nn/linear.hpp"
#include "parallel/node.hpp"
#include "parallel/region.hpp"
#include "parallel/stream.hpp"

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

// This rank's positions of the whole (B, T, ...).
at::Tensor own_positions(const at::Tensor& whole, const Communicator& ranks) {
  const Positions positions(whole.size(1), ranks.rank(), ranks.size());
  return whole.narrow(1, positions.begin, positions.count);
}

// The gathered input once more, in backward: for the first of the readers, kept until the last has it.
struct Again {
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
class GatheredProduct final : public torch::autograd::Node {
 public:
  GatheredProduct(const at::Tensor& part, const at::Tensor& weight, bool biased, nn::Linear::Layout layout,
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

class SplitStream final : public Stream, public std::enable_shared_from_this<SplitStream> {
 public:
  explicit SplitStream(Communicator ranks) : ranks_(std::move(ranks)) {}
  at::Tensor leave(const at::Tensor& partial) override {
    return with_gradient(scattered(partial, ranks_), partial,
                         [total = partial.size(1), ranks = ranks_](const at::Tensor& gradient) {
                           return gathered(gradient, total, ranks);
                         });
  }
  at::Tensor enter(const at::Tensor& x) override {
    return with_gradient(gathered(x, length(), ranks_), x,
                         [ranks = ranks_](const at::Tensor& gradient) { return scattered(gradient, ranks); });
  }
  std::shared_ptr<RegionInput> input(int64_t readers) override;
  at::Tensor own(const at::Tensor& by_position) override { return own_positions(by_position, ranks_); }
  // Every rank applies it to its own positions.
  at::Tensor parameter(const at::Tensor& parameter) override { return parallel::enter(parameter, ranks_); }
  at::Tensor end(const at::Tensor& x) override {
    return with_gradient(gathered(x, length(), ranks_), x, [ranks = ranks_](const at::Tensor& gradient) {
      return own_positions(gradient, ranks).contiguous();
    });
  }
  std::shared_ptr<Again> again(int64_t readers) const {
    return std::make_shared<Again>(Again{length(), ranks_, readers, 0, {}});
  }

 private:
  Communicator ranks_;
};

class SplitInput final : public RegionInput {
 public:
  SplitInput(std::shared_ptr<SplitStream> stream, int64_t readers)
      : stream_(std::move(stream)), readers_(readers) {}
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    nn::Linear::Layout layout) override {
    if (left_ == 0 || !outside_.is_same(x)) {
      outside_ = x;
      inside_ = stream_->enter(x);
      again_ = stream_->again(readers_);
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
      const std::shared_ptr<GatheredProduct> node(
          new GatheredProduct(x, weight, bias.defined(), layout, again_), torch::autograd::deleteNode);
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

 private:
  const std::shared_ptr<SplitStream> stream_;
  const int64_t readers_;
  int64_t left_ = 0;  // readers to come
  at::Tensor outside_, inside_;
  std::shared_ptr<Again> again_;
};

std::shared_ptr<RegionInput> SplitStream::input(int64_t readers) {
  return std::make_shared<SplitInput>(shared_from_this(), readers);
}

}  // namespace

std::shared_ptr<Stream> split_stream(Communicator ranks) {
  return std::make_shared<SplitStream>(std::move(ranks));
}

}  // namespace weft::parallel

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "autograd/deferred_gradients.hpp"
#include "autograd/first_order.hpp"
#include "base/text.hpp"
#include "layers/linear.hpp"
#include "streams/node.hpp"
#include "streams/region.hpp"
#include "streams/split_residual_stream.hpp"

namespace weft::parallel {

namespace {

// Gathers the input of a region again in backward, when the first of its readers needs it, and keeps it for
// the others.
class Again {
 public:
  explicit Again(std::shared_ptr<const SplitResidualStream> stream)
      : stream_(std::move(stream)), total_(stream_->length()) {}

  // Registers a reader, in forward.
  void join() { ++readers_; }
  // Starts to gather `part` if the stream overlaps and no reader has done it.
  void start(const at::Tensor& part) {
    if (left_ == 0 && !gathering_) gathering_ = stream_->start_gathering(part, total_);
  }
  // Returns the gradient of a reader's weight. The last reader releases the gathered input.
  at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& part, nn::Linear::Layout layout) {
    const bool first = left_ == 0;
    if (first) left_ = readers_;
    if (gathering_) whole_ = std::exchange(gathering_, {})();
    const at::Tensor gradient = first && !whole_.defined()
                                    ? stream_->gather_weight_gradient(dy, part, layout, total_, whole_)
                                    : nn::linear_weight_gradient(dy, whole_, layout);
    if (--left_ == 0) whole_.reset();
    return gradient;
  }

 private:
  const std::shared_ptr<const SplitResidualStream> stream_;
  const int64_t total_;
  int64_t readers_ = 0, left_ = 0;  // in forward; in backward, those that have not run yet
  std::function<at::Tensor()> gathering_;
  at::Tensor whole_;
};

// The backward of a product with a gathered input. It saves this rank's positions only.
class GatheredProduct final : public torch::autograd::Node {
 public:
  // Its edges are those of the gathered input, weight and bias. With `deferred`, which takes the gradients of
  // weight and bias, its only edge is that of the input: autograd would call the hooks of parameters twice.
  GatheredProduct(const at::Tensor& part, const at::Tensor& weight, const at::Tensor& bias,
                  nn::Linear::Layout layout, std::shared_ptr<Again> again,
                  std::shared_ptr<DeferredGradients> deferred)
      : part_(part, /*is_output=*/false),
        weight_(weight, /*is_output=*/false),
        parameters_(torch::autograd::collect_next_edges(weight, bias)),
        layout_(layout),
        again_(std::move(again)),
        deferred_(std::move(deferred)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];
    torch::autograd::variable_list result(num_outputs());
    if (!dy.defined()) return result;
    require_first_order("linear");
    // Every rank must gather, even if its weight is frozen, because gathering is collective.
    const at::Tensor part = part_.unpack().detach();
    if (deferred_ == nullptr) again_->start(part);
    if (task_should_compute_output(0)) result[0] = nn::linear_input_gradient(dy, weight_.unpack(), layout_);
    const bool biased = parameters_[1].is_valid();
    const auto gradients_of_parameters = [part, dy, biased, layout = layout_, again = again_] {
      return torch::autograd::variable_list{again->weight_gradient(dy, part, layout),
                                            biased ? nn::linear_bias_gradient(dy) : at::Tensor()};
    };
    if (deferred_ != nullptr) {
      deferred_->defer(parameters_, gradients_of_parameters);
      return result;
    }
    const torch::autograd::variable_list parameters = gradients_of_parameters();
    std::copy_n(parameters.begin(), result.size() - 1, result.begin() + 1);
    return result;
  }
  void release_variables() override {
    part_.reset_data();
    weight_.reset_data();
  }
  std::string name() const override { return "GatheredProduct"; }

 private:
  torch::autograd::SavedVariable part_, weight_;
  const torch::autograd::edge_list parameters_;  // of weight and bias
  const nn::Linear::Layout layout_;
  const std::shared_ptr<Again> again_;
  const std::shared_ptr<DeferredGradients> deferred_;  // null if backward is not split
};

class SplitInput final : public RegionInput {
 public:
  SplitInput(std::shared_ptr<SplitResidualStream> stream, int64_t readers)
      : stream_(std::move(stream)), readers_(readers) {}
  at::Tensor linear(const nn::Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                    const at::Tensor& bias) override {
    if (layer.product != nullptr)
      fail(WEFT_UNIMPLEMENTED,
           "sequence_parallelism_mode split_gather and ring compute the product of a column-parallel layer "
           "while they gather its input, which is not possible with an adapter; choose all_to_all or "
           "ring_attn");
    const nn::Linear::Layout layout = layer.layout;
    Crossing& crossing = nn::RunningUnit::current().kept().of<Crossing>(this);
    at::Tensor result;
    if (crossing.left == 0 || !crossing.outside.is_same(x)) {
      at::Tensor whole;
      result = stream_->gather_product(x, weight, bias, layout, whole);
      const at::Tensor inside =
          with_gradient(whole, x, [positions = stream_->positions()](const at::Tensor& gradient) {
            return positions.scattered(gradient);
          });
      crossing = {x, inside, std::make_shared<Again>(stream_), readers_};
    } else {
      const at::NoGradGuard no_graph;
      result = nn::linear(crossing.inside, weight, bias, layout);
    }
    if (torch::autograd::compute_requires_grad(crossing.inside, weight, bias)) {
      crossing.again->join();
      const std::shared_ptr<DeferredGradients> deferred = nn::deferred_for(weight, bias);
      const std::shared_ptr<GatheredProduct> node(
          new GatheredProduct(x, weight, bias, layout, crossing.again, deferred),
          torch::autograd::deleteNode);
      node->set_next_edges(deferred != nullptr
                               ? torch::autograd::collect_next_edges(crossing.inside)
                               : torch::autograd::collect_next_edges(crossing.inside, weight, bias));
      torch::autograd::set_history(result, node);
    }
    if (--crossing.left == 0) crossing = {};  // the last reader releases the memory
    return result;
  }

 private:
  struct Crossing {
    at::Tensor outside, inside;
    std::shared_ptr<Again> again;
    int64_t left = 0;  // readers that have not run yet
  };
  const std::shared_ptr<SplitResidualStream> stream_;
  const int64_t readers_;
};

}  // namespace

SplitResidualStream::SplitResidualStream(const StreamSetting& setting, bool overlaps)
    : ResidualStream(setting.sequence, Positions(setting.tensor, setting.order), 1),
      ranks_(setting.tensor),
      overlaps_(overlaps) {}

at::Tensor SplitResidualStream::leave(const at::Tensor& partial) {
  return with_gradient(positions_->scattered(partial), partial,
                       [positions = *positions_, total = partial.size(1)](const at::Tensor& gradient) {
                         return positions.gathered(gradient, total);
                       });
}

at::Tensor SplitResidualStream::enter(const at::Tensor& x) {
  return with_gradient(
      positions_->gathered(x, length()), x,
      [positions = *positions_](const at::Tensor& gradient) { return positions.scattered(gradient); });
}

std::shared_ptr<RegionInput> SplitResidualStream::input(int64_t readers) {
  return std::make_shared<SplitInput>(std::static_pointer_cast<SplitResidualStream>(shared_from_this()),
                                      readers);
}

at::Tensor SplitResidualStream::parameter(const at::Tensor& parameter) {
  return parallel::enter(parameter, ranks_);
}

at::Tensor SplitResidualStream::split(const at::Tensor& x) {
  return with_gradient(own(x).contiguous(), x,
                       [positions = *positions_, total = x.size(1)](const at::Tensor& gradient) {
                         return positions.gathered(gradient, total);
                       });
}

at::Tensor SplitResidualStream::gather_product(const at::Tensor& x, const at::Tensor& weight,
                                               const at::Tensor& bias, nn::Linear::Layout layout,
                                               at::Tensor& whole) const {
  const at::NoGradGuard no_graph;
  whole = positions_->gathered(x, length());
  return nn::linear(whole, weight, bias, layout);
}

at::Tensor SplitResidualStream::gather_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                                       nn::Linear::Layout layout, int64_t total,
                                                       at::Tensor& whole) const {
  whole = positions_->gathered(x, total);
  return nn::linear_weight_gradient(dy, whole, layout);
}

std::function<at::Tensor()> SplitResidualStream::start_gathering(const at::Tensor& x, int64_t total) const {
  if (!overlaps_) return nullptr;
  return positions_->start_gathering(x, total);
}

std::shared_ptr<ResidualStream> make_split_gather(const StreamSetting& setting) {
  return std::make_shared<SplitResidualStream>(setting, setting.overlaps);
}

}  // namespace weft::parallel

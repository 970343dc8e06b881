#include <ATen/AccumulateType.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <limits>
#include <optional>

#include "autograd/first_order.hpp"
#include "base/text.hpp"
#include "device/autocast.hpp"
#include "device/tensors.hpp"
#include "layers/documents.hpp"
#include "streams/attention_block.hpp"
#include "streams/ring_parts.hpp"
#include "streams/route.hpp"
#include "streams/stream_attention.hpp"
#include "streams/whole_residual_stream.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/masks.hpp"

namespace weft::parallel {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

constexpr uint32_t kKeys = 2, kGradients = 3;  // tags of messages

// What forward and backward of one call share.
struct Setting {
  Positions positions;
  Route route;
  RingShape shape;
  at::Tensor bias;  // (1 or B, 1 or H, 1 or this rank's queries, all keys), or undefined
  bool learns_bias, fused;
  double scale, soft_cap, dropout;
  uint64_t seed;
};

// Sends a tensor to one rank and receives one from another. Empty tensors are not sent.
class Exchange {
 public:
  Exchange(const Communicator& ranks, uint32_t tag, const at::Tensor& sent, int to, at::Tensor received,
           int from)
      : received_(std::move(received)), work_(ranks.exchange(sent, to, received_, from, tag)) {}
  // Waits for both and returns the received tensor.
  at::Tensor wait() {
    work_.wait();
    return received_;
  }

 private:
  at::Tensor received_;
  Work work_;
};

at::Tensor narrowed(const at::Tensor& x, int64_t dim, const Run& range) {
  return x.narrow(dim, range.begin, range.count);
}

// Returns `bias` for the rows and queries of a part.
at::Tensor queries_of(const at::Tensor& bias, const RingPart& at) {
  const at::Tensor rows = bias.size(0) == 1 ? bias : narrowed(bias, 0, at.rows);
  return rows.size(-2) == 1 ? rows : narrowed(rows, -2, at.queries);
}

// Returns `bias` with larger values in place of the lowest ones, so that hide_before_window() has a lower
// one. A query whose window contains only padding attends to that padding, and not to what lies before the
// window.
at::Tensor above_hidden(const at::Tensor& bias) {
  const at::Tensor padding = nn::additive_mask(at::zeros({1}, at::kBool), bias.scalar_type());
  return bias.clamp_min(device::value_of<double>(padding) / 2);
}

// Masks the keys of `block` that lie before the window of a query. The value is finite, because a query may
// have no key of the block in its window.
void hide_before_window(const Setting& setting, const RingPart& at, int rank, AttentionBlock& block) {
  const auto numbers = [&](int of, int64_t total, const Run& range) {
    return narrowed(setting.positions.of(of, at::arange(total), 0), 0, range);
  };
  const RingShape& shape = setting.shape;
  const at::Tensor queries = numbers(setting.positions.ranks().rank(), shape.total, at.queries),
                   keys = numbers(rank, shape.total_keys, at.keys),
                   hidden = (queries.unsqueeze(1) - keys).ge(shape.window);
  if (!device::value_of<bool>(hidden.any())) return;
  const at::Tensor here = hidden.to(block.q.device()).view({1, 1, queries.numel(), keys.numel()});
  const at::Tensor window = nn::additive_mask(here.logical_not(), block.q.scalar_type());
  block.bias = block.bias.defined() ? at::where(here, window, block.bias) : window;
}

// Returns the block of part `index` of a step: of this rank's queries `q` (B, t, H, D) and the keys and
// values (2, B, s, G, D) of `rank`.
AttentionBlock block_of(const Setting& setting, const RingPart& at, size_t index, int rank,
                        const at::Tensor& q, const at::Tensor& keys_values) {
  const auto heads_first = [&](const at::Tensor& x, const Run& range) {
    return narrowed(narrowed(x, 0, at.rows), 1, range).transpose(1, 2);
  };
  AttentionBlock block;
  block.q = heads_first(q, at.queries);
  block.k = heads_first(keys_values.select(0, 0), at.keys);
  block.v = heads_first(keys_values.select(0, 1), at.keys);
  block.causal = at.causal;
  block.scale = setting.scale;
  block.soft_cap = setting.soft_cap;
  block.fused = setting.fused;
  block.dropout = setting.dropout;
  block.seed = setting.seed + 0xD1B54A32D192ED03ull * static_cast<uint64_t>(rank + 1) +
               0x8CB92BA72F3D8DD7ull * static_cast<uint64_t>(index);
  if (setting.bias.defined()) {
    block.bias = narrowed(setting.positions.of(rank, queries_of(setting.bias, at), -1), -1, at.keys);
    block.learns_bias = setting.learns_bias;
  }
  if (setting.shape.window > 0) hide_before_window(setting, at, rank, block);
  return block;
}

// Adds the gradient of one block's bias to `sum`, the gradient of the whole bias.
void add_bias_gradient(const Setting& setting, const RingPart& at, int rank, const at::Tensor& gradient,
                       const at::Tensor& sum) {
  int64_t begin = 0, left = at.keys.count;  // a range of keys begins with the first segment
  for (const Run& keys : setting.positions.of(rank, setting.shape.total_keys)) {
    const int64_t count = std::min(keys.count, left);
    queries_of(sum, at).narrow(-1, keys.begin, count).add_(gradient.narrow(-1, begin, count));
    begin += count;
    left -= count;
  }
}

// Calls visit(step, rank, keys and values of that rank) for every rank, this rank first, while the next keys
// and values are under way.
template <class Visit>
void visit_keys(const Setting& setting, const at::Tensor& own, const Visit& visit) {
  const Route& route = setting.route;
  at::Tensor here = own;
  for (int step = 0; step < route.steps(); ++step) {
    std::optional<Exchange> exchange;
    if (step + 1 < route.steps()) {
      at::DimVector shape(own.sizes());
      shape[2] = setting.positions.count(route.here(step + 1), setting.shape.total_keys);
      exchange.emplace(setting.positions.ranks(), kKeys, here, route.next(step),
                       at::empty(shape, own.options()), route.previous(step));
    }
    visit(step, route.here(step), here);
    if (exchange) here = exchange->wait();
  }
}

// Returns the result for the rows and queries of a part.
AttentionPart part_at(const AttentionPart& whole, const RingPart& at) {
  const auto of_part = [&](const at::Tensor& x) { return narrowed(narrowed(x, 0, at.rows), 2, at.queries); };
  return {of_part(whole.out), of_part(whole.log_sum_exp)};
}

// Computes attention of this rank's queries `q` to all keys. `keys_values` are this rank's.
AttentionPart forward_of(const Setting& setting, const at::Tensor& q, const at::Tensor& keys_values) {
  AttentionPart whole;
  const auto begin = [&](double log_sum_exp) {
    const at::Tensor out = at::zeros_like(
        q.transpose(1, 2), q.options().dtype(at::toAccumulateType(q.scalar_type(), /*is_cuda=*/true)));
    whole = {out, out.sum(-1).fill_(log_sum_exp)};
  };
  if (!setting.shape.spans.empty()) begin(-std::numeric_limits<double>::infinity());
  visit_keys(setting, keys_values, [&](int, int rank, const at::Tensor& here) {
    for (size_t index = 0; const RingPart& at : ring_parts(setting.positions, rank, setting.shape)) {
      const AttentionPart part = attend(block_of(setting, at, index++, rank, q, here));
      if (!whole.out.defined()) {
        whole = {part.out.clone(), part.log_sum_exp.clone()};  // the first step has all queries
        continue;
      }
      AttentionPart sum = part_at(whole, at);
      merge(sum, part);
    }
  });
  if (!whole.out.defined()) begin(0);  // this rank has no positions
  return whole;
}

struct Gradients {
  at::Tensor dq, dk, dv, dbias;  // in the shapes of q, k, v and the bias
};

// Computes the gradients. Those of keys and values travel one step behind the keys and values and end at the
// rank that owns them.
Gradients backward_of(const Setting& setting, const at::Tensor& q, const at::Tensor& keys_values,
                      const AttentionPart& whole, const at::Tensor& gradient) {
  const Route& route = setting.route;
  const at::ScalarType exact = whole.log_sum_exp.scalar_type();
  const at::Tensor dq = at::zeros(q.sizes(), q.options().dtype(exact)), up = gradient.transpose(1, 2);
  const at::Tensor dbias = setting.learns_bias
                               ? at::zeros(setting.bias.sizes(), setting.bias.options().dtype(exact))
                               : at::Tensor();
  std::optional<Exchange> travelling;
  visit_keys(setting, keys_values, [&](int step, int rank, const at::Tensor& here) {
    const std::vector<RingPart> parts = ring_parts(setting.positions, rank, setting.shape);
    std::vector<AttentionGradients> own;
    for (const RingPart& at : parts)
      own.push_back(attend_backward(block_of(setting, at, own.size(), rank, q, here), part_at(whole, at),
                                    narrowed(narrowed(up, 0, at.rows), 2, at.queries)));
    const at::Tensor sum =
        travelling ? travelling->wait() : at::zeros(here.sizes(), here.options().dtype(exact));
    for (size_t index = 0; const RingPart& at : parts) {
      const auto add = [&](const at::Tensor& to, const Run& range, const at::Tensor& gradient) {
        narrowed(narrowed(to, 0, at.rows), 1, range).add_(gradient.transpose(1, 2));
      };
      const AttentionGradients& of_part = own[index++];
      add(dq, at.queries, of_part.dq);
      add(sum.select(0, 0), at.keys, of_part.dk);
      add(sum.select(0, 1), at.keys, of_part.dv);
      if (of_part.dbias.defined()) add_bias_gradient(setting, at, rank, of_part.dbias, dbias);
    }
    const bool last = step + 1 == route.steps();
    at::DimVector shape(here.sizes());
    shape[2] = setting.positions.count(last ? setting.positions.ranks().rank() : route.here(step + 1),
                                       setting.shape.total_keys);
    travelling.emplace(setting.positions.ranks(), kGradients, sum, last ? rank : route.next(step),
                       at::empty(shape, sum.options()), last ? route.own(step) : route.previous(step));
  });
  const at::Tensor sum = travelling->wait();
  const auto as_given = [&](const at::Tensor& x) { return x.to(q.scalar_type()); };
  return {as_given(dq), as_given(sum.select(0, 0)), as_given(sum.select(0, 1)),
          dbias.defined() ? dbias.to(setting.bias.scalar_type()) : dbias};
}

class RingNode final : public torch::autograd::Node {
 public:
  RingNode(Setting setting, const at::Tensor& q, const at::Tensor& keys_values, const AttentionPart& whole)
      : setting_(std::move(setting)),
        saved_{SavedVariable(q, false), SavedVariable(keys_values, false), SavedVariable(whole.out, false),
               SavedVariable(whole.log_sum_exp, false)} {}
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return {{}, {}, {}, {}};
    require_first_order("attention");
    const at::Tensor q = saved_[0].unpack();
    const AttentionPart whole = {saved_[2].unpack(), saved_[3].unpack()};
    Gradients result = backward_of(setting_, q, saved_[1].unpack(), whole, gradients[0].view(q.sizes()));
    return {result.dq, result.dk, result.dv, result.dbias};
  }
  void release_variables() override {
    for (SavedVariable& saved : saved_) saved.reset_data();
  }
  std::string name() const override { return "RingAttention"; }

 private:
  const Setting setting_;
  SavedVariable saved_[4];
};

// Ring attention (Liu et al., Ring attention with blockwise transformers, arXiv:2310.01889): keys and values
// travel from rank to rank, and the results of their blocks are merged by log-sum-exp. `inner` neighbours
// form an inner ring: keys and values pass all ranks of it before they move to the next inner ring.
class RingAttention final : public StreamAttention {
 public:
  RingAttention(std::shared_ptr<ResidualStream> stream, std::shared_ptr<ResidualStream> source, int inner)
      : StreamAttention(std::move(stream), std::move(source)),
        route_(this->stream().positions().ranks().rank(), this->stream().positions().ranks().size(), inner) {}

  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     const nn::AttentionOptions& options) const override {
    // Cast the inputs as autocast would, then disable it: forward and backward choose their precision
    // themselves.
    if (const std::optional<at::ScalarType> cast = device::autocast_dtype()) {
      const device::NoAutocast no_autocast;
      const at::ScalarType dtype = q.scalar_type() == at::kDouble ? at::kDouble : *cast;
      return forward(q.to(dtype), k.to(dtype), v.to(dtype), mask, options);
    }
    if (options.upcast && at::isReducedFloatingType(q.scalar_type())) {
      nn::AttentionOptions same = options;
      same.upcast = false;
      return forward(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, same).to(v.scalar_type());
    }
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
    if (options.window < 0)
      fail(WEFT_INVALID_ARGUMENT, "attention: the window is {}, must not be negative", options.window);
    if (!(options.soft_cap >= 0))
      fail(WEFT_INVALID_ARGUMENT, "attention: the soft cap is {}, must not be negative", options.soft_cap);
    const bool masks_documents = options.documents.defined() && nn::need_document_mask(options.documents);
    at::Tensor bias = bias_of(masks_documents ? nn::with_document_mask(mask, options.documents, q) : mask, q);
    if (options.window > 0 && (!options.causal || (bias.defined() && bias.requires_grad())))
      fail(WEFT_UNIMPLEMENTED,
           "attention: sequence_parallelism_mode ring_attn supports windows in causal attention without a "
           "learned bias only; choose all_to_all");
    if (options.window > 0 && bias.defined()) bias = above_hidden(bias);
    RingShape shape = {q.size(0),         stream().length(),
                       source().length(), options.causal || options.mask_is_causal,
                       options.window,    {}};
    if (options.documents.defined() && !masks_documents) shape.spans = spans_of(options.documents, bias);
    const Setting setting = {stream().positions(),
                             route_,
                             std::move(shape),
                             bias.defined() ? bias.detach() : bias,
                             bias.defined() && bias.requires_grad() && at::GradMode::is_enabled(),
                             options.fused,
                             scale,
                             options.soft_cap,
                             options.dropout,
                             options.dropout > 0 ? nn::drawn_seed(options.random_stream) : 0};
    at::Tensor keys_values, result;
    AttentionPart whole;
    {
      const at::NoGradGuard no_graph;
      keys_values = at::stack({k, v});
      whole = forward_of(setting, q, keys_values);
      result = whole.out.transpose(1, 2).to(q.scalar_type()).flatten(2).detach();
    }
    if (!torch::autograd::compute_requires_grad(q, k, v, bias)) return result;
    const std::shared_ptr<RingNode> node(new RingNode(setting, q, keys_values, whole),
                                         torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(q, k, v, bias));
    torch::autograd::set_history(result, node);
    return result;
  }

 private:
  // Returns `mask` as an additive bias, with the rows of this rank's queries if it has a row for each query.
  at::Tensor bias_of(const at::Tensor& mask, const at::Tensor& q) const {
    if (!mask.defined()) return mask;
    const bool of_all = mask.size(-2) > 1 && mask.size(-2) != q.size(1);
    const at::Tensor own = of_all ? stream().positions().own(mask, -2) : mask;
    return own.scalar_type() == at::kBool ? nn::additive_mask(own, q.scalar_type()) : own;
  }

  // Returns the documents. Throws where they cannot be kept apart.
  std::vector<kernels::AttentionSpan> spans_of(const at::Tensor& begins, const at::Tensor& bias) const {
    if (&source() != &stream() || begins.size(-1) != stream().length())
      fail(
          WEFT_INVALID_ARGUMENT,
          "attention inside documents: the begins of documents are of {} positions, must be of the {} of the "
          "sequence that attends to itself",
          begins.size(-1), stream().length());
    if (bias.defined() && bias.requires_grad())
      fail(
          WEFT_UNIMPLEMENTED,
          "attention: sequence_parallelism_mode ring_attn keeps documents apart without a learned bias only; "
          "choose all_to_all");
    return nn::document_spans(begins);
  }

  const Route route_;
};

class RingAttentionResidualStream final : public WholeResidualStream {
 public:
  explicit RingAttentionResidualStream(const StreamSetting& setting)
      : WholeResidualStream(setting, Positions(setting.along, setting.order)),
        inner_ring_(setting.inner_ring) {}
  std::shared_ptr<nn::AttentionOperation> attention(const std::shared_ptr<ResidualStream>& source) override {
    return std::make_shared<RingAttention>(shared_from_this(), source, inner_ring_);
  }
  // This rank's queries.
  BiasPart bias_part(int64_t heads, int64_t total) const override { return {total, own(total), {0, heads}}; }

 private:
  const int inner_ring_;
};

}  // namespace

// The stream is split over the ranks of the sequence axis; the tensor ranks hold the same positions.
std::shared_ptr<ResidualStream> make_ring_attn(const StreamSetting& setting) {
  return std::make_shared<RingAttentionResidualStream>(setting);
}

}  // namespace weft::parallel

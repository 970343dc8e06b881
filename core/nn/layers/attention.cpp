#include <ATen/AccumulateType.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "layers/documents.hpp"
#include "layers/fused_attention.hpp"
#include "layers/random_stream.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/key_value_cache.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/masks.hpp"

namespace weft::nn {

namespace {

// Returns an undefined mask as it is.
at::Tensor additive(const at::Tensor& mask, at::ScalarType dtype) {
  if (!mask.defined()) return mask;
  if (are_document_begins(mask))
    fail(WEFT_INVALID_ARGUMENT,
         "attention to another sequence, or to earlier tokens in a cache, has document begins in place of a "
         "mask, and only attention of a sequence to itself keeps documents apart");
  return mask.scalar_type() == at::kBool ? additive_mask(mask, dtype) : mask.to(dtype);
}

// Returns the window, or 0 if every one of `positions` sees all positions up to itself.
int64_t window_of(const AttentionOptions& options, int64_t positions) {
  if (options.window < 0 || (options.window > 0 && !options.causal))
    fail(WEFT_INVALID_ARGUMENT,
         "attention: the window is {}, must not be negative, and needs causal attention", options.window);
  return options.window < positions ? options.window : 0;
}

// Returns `mask`, or zeros if it is undefined, with later positions masked, and with those before the window.
// The queries are the last positions of the keys. Each keeps the value of `mask` for itself, so no row is all
// infinite.
at::Tensor with_causal(const at::Tensor& mask, const at::Tensor& q, const at::Tensor& k,
                       const AttentionOptions& options) {
  const int64_t queries = q.size(-2), keys = k.size(-2);
  const auto ones = [&] { return at::ones({queries, keys}, q.options().dtype(at::kBool)); };
  const int64_t past = keys - queries;
  at::Tensor hidden = ones().triu_(1 + past);
  if (const int64_t window = window_of(options, keys); window > 0)
    hidden.logical_or_(ones().tril_(past - window));
  return (mask.defined() ? mask : at::zeros({1, 1, 1, 1}, q.options()))
      .masked_fill(hidden, -std::numeric_limits<double>::infinity());
}

// Returns the mask of attention() that the options ask for, or an undefined tensor.
at::Tensor mask_of(const at::Tensor& mask, const at::Tensor& q, const at::Tensor& k,
                   const AttentionOptions& options) {
  const at::Tensor allowed = additive(mask, q.scalar_type());
  return options.causal ? with_causal(allowed, q, k, options) : allowed;
}

// Computes attention with a soft cap, one operation after the other, as no fused kernel has it. Scores and
// probabilities are fp32 at least: the sum of a score and a mask of the lowest value fits no half precision.
at::Tensor soft_capped_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& mask, const AttentionOptions& options) {
  const int64_t shared = q.size(1) / k.size(1);
  const auto of_all_heads = [&](const at::Tensor& x) {
    return shared == 1 ? x : x.repeat_interleave(shared, 1);
  };
  const at::ScalarType exact = at::toAccumulateType(q.scalar_type(), /*is_cuda=*/true);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  at::Tensor scores = at::matmul(q, of_all_heads(k).transpose(-1, -2)).to(exact);
  scores = soft_capped(scores * scale, options.soft_cap);
  if (const at::Tensor added = mask_of(mask, q, k, options); added.defined()) scores = scores + added;
  at::Tensor weights = at::softmax(scores, -1).to(v.scalar_type());
  if (options.dropout > 0) weights = at::dropout(weights, options.dropout, /*train=*/true);
  return at::matmul(weights, of_all_heads(v));
}

}  // namespace

at::Tensor soft_capped(const at::Tensor& x, double cap) {
  if (!(cap >= 0)) fail(WEFT_INVALID_ARGUMENT, "the soft cap is {}, must be 0 (none) or more than 0", cap);
  return cap == 0 ? x : at::tanh(x / cap) * cap;
}

// libtorch selects its fused kernel where that is exact (without dropout, for any strides), and the formula
// otherwise.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     const AttentionOptions& options) {
  if (options.documents.defined() || are_document_begins(mask)) {
    const auto by_position = [](const at::Tensor& x) { return x.transpose(1, 2); };
    return self_attention(by_position(q), by_position(k), by_position(v), mask, options)
        .unflatten(-1, {q.size(1), -1})
        .transpose(1, 2);
  }
  if (options.upcast && at::isReducedFloatingType(q.scalar_type())) {
    AttentionOptions same = options;
    same.upcast = false;
    return attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, same).to(v.scalar_type());
  }
  std::optional<RandomStream> random;
  if (options.dropout > 0) random.emplace(options.random_stream);
  const auto attend = [&](const std::optional<at::Tensor>& allowed, bool causal) {
    if (options.fused)
      return at::scaled_dot_product_attention(q, k, v, allowed, options.dropout, causal, options.scale,
                                              /*enable_gqa=*/q.size(1) != k.size(1));
    return std::get<0>(
        at::_scaled_dot_product_attention_math(q, k, v, allowed, options.dropout, causal, {}, options.scale));
  };
  const bool narrow = window_of(options, k.size(-2)) > 0;
  if (options.soft_cap != 0) return soft_capped_attention(q, k, v, mask, options);
  if (!mask.defined() && !narrow) return attend({}, options.causal);
  return attend(mask_of(mask, q, k, options), false);
}

namespace {

// Draws the seed of the dropout, if there is one.
FusedAttention fused_setting(const AttentionOptions& options, int64_t queries, int64_t keys, int64_t size) {
  return {options.causal || (options.mask_is_causal && queries == keys),
          window_of(options, keys),
          options.scale.value_or(1 / std::sqrt(static_cast<double>(size))),
          options.documents,
          options.dropout,
          options.dropout > 0 ? drawn_mask_seed(options.random_stream).number : 0};
}

// Returns true if libtorch has kernels in which several heads of q share one of k and v without a copy: those
// of devices for half precision, which take no mask.
bool shares_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& mask,
                  const AttentionOptions& options) {
  return options.fused && !options.upcast && options.soft_cap == 0 && !device::is_on_host(q) &&
         !q.is_meta() && at::isReducedFloatingType(q.scalar_type()) && !mask.defined() &&
         window_of(options, k.size(1)) == 0;
}

// Returns a mask that differs by head, (B, H, T, S), as (B, G, H / G, T, S), and an undefined tensor for
// a mask that all heads share.
at::Tensor mask_by_group(const at::Tensor& mask, int64_t groups, int64_t shared) {
  if (!mask.defined() || mask.dim() != 4 || mask.size(1) == 1) return {};
  return mask.unflatten(1, {groups, shared});
}

// q: (B, T, H, D) -> (B, T, H, D)
at::Tensor by_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                    const AttentionOptions& options) {
  return attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask, options).transpose(1, 2);
}

struct Prepared {
  at::Tensor mask;
  AttentionOptions options;
};

// Returns mask and options with document begins in the options, or in the mask where that is necessary;
// nothing if they are there.
std::optional<Prepared> with_documents(const at::Tensor& mask, const AttentionOptions& options,
                                       const at::Tensor& like) {
  const at::Tensor& begins = options.documents.defined() ? options.documents : mask;
  if (!are_document_begins(begins) || (!need_document_mask(begins) && !are_document_begins(mask)))
    return std::nullopt;
  Prepared prepared = {mask, options};
  take_documents(prepared.mask, prepared.options);
  if (need_document_mask(begins)) {
    prepared.mask = with_document_mask(prepared.mask, begins, like);
    prepared.options.documents = at::Tensor();
  }
  return prepared;
}

// Computes self_attention() of each document.
at::Tensor inside_documents(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& mask, const AttentionOptions& options) {
  AttentionOptions of_document = options;
  of_document.documents = at::Tensor();
  return by_documents(q, k, v, mask, options.documents,
                      [&](const auto&... of_one) { return self_attention(of_one..., of_document); });
}

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, const at::Tensor& mask, const AttentionOptions& options) {
  if (const auto prepared = with_documents(mask, options, qkv))
    return self_attention(qkv, prepared->mask, prepared->options);
  require_documents_of(options.documents, qkv.size(0), qkv.size(1), qkv.size(1));
  const int64_t positions = qkv.size(1);
  if (has_fused_attention(qkv, mask, options, {qkv.size(0), qkv.size(3), positions, positions}) &&
      qkv.stride(-1) == 1)
    return fused_attention(qkv, additive(mask, at::kFloat),
                           fused_setting(options, positions, positions, qkv.size(-1)));
  const std::vector<at::Tensor> parts = qkv.unbind(2);
  if (options.documents.defined()) return inside_documents(parts[0], parts[1], parts[2], mask, options);
  return by_heads(parts[0], parts[1], parts[2], mask, options).flatten(2);
}

at::Tensor self_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& mask, const AttentionOptions& options) {
  if (const auto prepared = with_documents(mask, options, q))
    return self_attention(q, k, v, prepared->mask, prepared->options);
  require_documents_of(options.documents, q.size(0), q.size(1), k.size(1));
  const int64_t groups = k.size(2), shared = q.size(2) / groups;
  TORCH_INTERNAL_ASSERT(shared * groups == q.size(2));
  if ((q.size(1) == k.size(1) || !options.causal) &&
      has_fused_attention(q, mask, options, {q.size(0), q.size(2), q.size(1), k.size(1)}) &&
      q.stride(-1) == 1 && k.stride(-1) == 1 && v.stride(-1) == 1)
    return fused_attention(q, k, v, additive(mask, at::kFloat),
                           fused_setting(options, q.size(1), k.size(1), q.size(-1)));
  if (options.documents.defined()) return inside_documents(q, k, v, mask, options);
  if (shared == 1 || shares_heads(q, k, mask, options)) return by_heads(q, k, v, mask, options).flatten(2);
  AttentionOptions of_head = options;
  at::Tensor allowed = mask;
  if (options.causal && (mask.defined() || window_of(options, k.size(1)) > 0)) {
    allowed = with_causal(additive(mask, q.scalar_type()), q.transpose(1, 2), k.transpose(1, 2), options);
    of_head.causal = false;
    of_head.window = 0;
  }
  // Compute one head of each group at a time, so that k and v are never repeated.
  const at::Tensor grouped = q.unflatten(2, {groups, shared});
  const at::Tensor grouped_mask = mask_by_group(allowed, groups, shared);
  std::vector<at::Tensor> mixed;
  for (int64_t head = 0; head < shared; ++head) {
    const at::Tensor of_group = grouped_mask.defined() ? grouped_mask.select(2, head) : allowed;
    mixed.push_back(by_heads(grouped.select(3, head), k, v, of_group, of_head));
  }
  return at::stack(mixed, 3).flatten(2);
}

namespace {

using KeysValues = KeyValueCache::KeysValues;

// Returns attention of q (B, T, H, D) to keys and values (B, G, S, D) -> (B, T, H D). The mask decides alone
// which keys a query sees.
at::Tensor attention_to(const at::Tensor& q, const KeysValues& cached, const at::Tensor& mask,
                        AttentionOptions options) {
  options.causal = options.mask_is_causal = false;
  options.window = 0;
  const auto& [keys, values] = cached;
  const int64_t rows = q.size(0), queries = q.size(1), heads = q.size(2), groups = keys.size(1);
  const int64_t shared = heads / groups;
  if (shared == 1)
    return attention(q.transpose(1, 2), keys, values, mask, options).transpose(1, 2).flatten(2);
  const at::Tensor grouped_mask = mask_by_group(mask, groups, shared);
  if (queries == 1) {
    // All heads of a group see the same keys, so they can be the queries of one head.
    const at::Tensor allowed = grouped_mask.defined() ? grouped_mask.squeeze(3) : mask;
    return attention(q.reshape({rows, groups, shared, q.size(3)}), keys, values, allowed, options)
        .reshape({rows, 1, heads * q.size(3)});
  }
  const at::Tensor grouped = q.unflatten(2, {groups, shared});
  std::vector<at::Tensor> mixed;
  for (int64_t head = 0; head < shared; ++head) {
    const at::Tensor allowed = grouped_mask.defined() ? grouped_mask.select(2, head) : mask;
    mixed.push_back(
        attention(grouped.select(3, head).transpose(1, 2), keys, values, allowed, options).transpose(1, 2));
  }
  return at::stack(mixed, 3).flatten(2);
}

// Returns self-attention of positions that continue those in the cache, for which `cached` has all keys.
at::Tensor continued_attention(KeyValueCache& cache, const at::Tensor& q, KeysValues cached,
                               const at::Tensor& mask, const AttentionOptions& options) {
  const int64_t keys = cache.length();
  at::Tensor allowed = mask.defined() ? mask : cache.padding(q);
  if (allowed.defined() && allowed.size(-1) != keys)
    fail(WEFT_FAILED_PRECONDITION,
         "attention of positions that continue {} others has a mask of {} keys, must have {}; give the mask "
         "of padding when the sequences begin",
         cache.past(), allowed.size(-1), keys);
  if (q.size(1) > 1) {
    if (options.causal)
      allowed = with_causal(additive(allowed, q.scalar_type()), q.transpose(1, 2), cached.keys, options);
    return attention_to(q, cached, allowed, options);
  }
  // One query sees all keys, or the last ones.
  if (const int64_t window = window_of(options, keys); window > 0) {
    const auto last = [&](const at::Tensor& x, int64_t dim) { return x.narrow(dim, keys - window, window); };
    cached = {last(cached.keys, 2), last(cached.values, 2)};
    if (allowed.defined()) allowed = last(allowed, -1);
  }
  return attention_to(q, cached, allowed, options);
}

}  // namespace

void Attention::require_cache() const {
  if (operation)
    fail(WEFT_UNIMPLEMENTED,
         "generation needs whole sequences on each rank, but this job splits them, whose attention keeps no "
         "keys and values; leave sequence parallelism out");
}

at::Tensor Attention::attend_source(const at::Tensor& q, const KeysAndValues& make, const at::Tensor& mask,
                                    AttentionOptions options) const {
  KeyValueCache* const cache = KeyValueCache::current();
  if (cache == nullptr) {
    const auto [k, v] = make();
    return attend(q, k, v, mask, options);
  }
  require_cache();
  options.fused = fused;
  return attention_to(q, cache->source(this, make), mask, options);
}

at::Tensor RelativeAttentionBias::cached_padding(const at::Tensor& given, const at::Tensor& like) {
  KeyValueCache* const cache = KeyValueCache::current();
  return given.defined() || cache == nullptr ? given : cache->padding(like);
}

RelativeAttentionBias::Part RelativeAttentionBias::part(int64_t positions, int64_t heads) const {
  Part part = operation ? operation->part(heads) : Part{positions, {{0, positions}}, {0, heads}};
  if (const KeyValueCache* const cache = KeyValueCache::current()) {
    part.positions += cache->past();
    for (Run& queries : part.queries) queries.begin += cache->past();
  }
  return part;
}

at::Tensor Attention::attend(const at::Tensor& qkv, const at::Tensor& mask, AttentionOptions options) const {
  if (operation || KeyValueCache::current() != nullptr)
    return attend(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), mask, options);
  options.fused = fused;
  options.random_stream = random_stream;
  return self_attention(qkv, mask, options);
}

at::Tensor Attention::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& given, AttentionOptions options) const {
  options.fused = fused;
  options.random_stream = random_stream;
  at::Tensor mask = given;
  take_documents(mask, options);
  if (KeyValueCache* const cache = KeyValueCache::current()) {
    require_cache();
    if (options.documents.defined())
      fail(WEFT_UNIMPLEMENTED,
           "generation continues one document in each row, but this batch has rows of several; give each of "
           "them a row");
    const KeysValues cached = cache->append(this, k, v);
    return cache->past() == 0 ? self_attention(q, k, v, mask, options)
                              : continued_attention(*cache, q, cached, mask, options);
  }
  return operation ? operation->forward(q, k, v, mask, options) : self_attention(q, k, v, mask, options);
}

}  // namespace weft::nn

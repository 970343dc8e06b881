#include "t5_layers.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/masks.hpp"

namespace weft::t5 {

// The same operations in the same order as in transformers' _relative_position_bucket, because rounding
// decides where a range ends.
at::Tensor bucket_of(const at::Tensor& distances, const Buckets& buckets) {
  const int64_t count = buckets.bidirectional ? buckets.count / 2 : buckets.count;
  const int64_t exact = count / 2;
  const at::Tensor distance = buckets.bidirectional ? distances.abs() : distances.neg().clamp_min(0);
  const at::Tensor logarithms = at::log(distance.to(at::kFloat) / exact);
  const double range = std::log(static_cast<double>(buckets.largest_distance) / static_cast<double>(exact));
  const at::Tensor far = (logarithms / range * (count - exact)).to(at::kLong) + exact;
  const at::Tensor bucket = at::where(distance.lt(exact), distance, far.clamp_max(count - 1));
  return buckets.bidirectional ? bucket + distances.gt(0) * count : bucket;
}

RelativeAttentionBias::RelativeAttentionBias(const T5Config& config, bool bidirectional, at::ScalarType dtype)
    : buckets_{config.relative_attention_num_buckets, config.relative_attention_max_distance, bidirectional} {
  const auto options = at::TensorOptions().dtype(dtype).device(at::kMeta);
  weight = register_parameter("weight", at::empty({buckets_.count, config.num_heads}, options));
}

// Computes one row for all distances; the bias of each query is a window of it.
at::Tensor RelativeAttentionBias::operator()(const Part& part) const {
  const at::Tensor numbers = weight.narrow(1, part.heads.begin, part.heads.count);
  std::vector<at::Tensor> rows;
  for (const Run& queries : part.queries) {
    const int64_t begin = queries.begin, count = queries.count;
    if (weight.is_meta()) {
      rows.push_back(at::empty({part.heads.count, count, part.positions}, weight.options()));
      continue;
    }
    // Without queries the result has no rows, but it stays part of the graph.
    const int64_t end = begin + std::max<int64_t>(count, 1);
    const at::Tensor distances =
        at::arange(1 - end, part.positions - begin, weight.options().dtype(at::kLong));
    const at::Tensor by_distance = numbers.index_select(0, bucket_of(distances, buckets_));
    rows.push_back(by_distance.t().unfold(1, part.positions, 1).flip(1).narrow(1, 0, count));
  }
  return (rows.size() == 1 ? rows.front() : at::cat(rows, 1)).unsqueeze(0);
}

Attention::Attention(const T5Config& config, Direction direction, bool has_bias, at::ScalarType dtype)
    : n_heads(config.num_heads), head_size_(config.d_kv), causal_(direction == Direction::kCausal) {
  const int64_t outer = config.d_model, inner = config.num_heads * config.d_kv;
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, false, dtype));
  };
  q = linear("q", outer, inner);
  k = linear("k", outer, inner);
  v = linear("v", outer, inner);
  o = linear("o", inner, outer);
  dropout = register_module("dropout", std::make_shared<nn::AttentionDropout>(config.dropout_rate));
  if (has_bias) {
    relative_attention_bias = register_module(
        "relative_attention_bias",
        std::make_shared<RelativeAttentionBias>(config, direction == Direction::kBoth, dtype));
  }
}

at::Tensor Attention::operator()(const at::Tensor& x, const at::Tensor& source,
                                 const at::Tensor& mask) const {
  const auto split = [&](const at::Tensor& all) { return all.unflatten(-1, {n_heads, head_size_}); };
  nn::AttentionOptions options;
  options.scale = 1;
  options.mask_is_causal = causal_;
  if (is_training()) options.dropout = dropout->probability;
  if (source.defined()) {
    const auto keys_and_values = [&] {
      const std::vector<at::Tensor> both = nn::linears(source, {k.get(), v.get()});
      return nn::KeyValueCache::KeysValues{split(both[0]), split(both[1])};
    };
    return (*o)(attend_source(split((*q)(x)), keys_and_values, mask, options));
  }
  const std::vector<at::Tensor> mixed = nn::linears(x, {q.get(), k.get(), v.get()});
  return (*o)(attend(split(mixed[0]), split(mixed[1]), split(mixed[2]), mask, options));
}

at::Tensor Attention::position_bias(int64_t positions, const at::Tensor& padding) const {
  const RelativeAttentionBias::Part part = relative_attention_bias->part(positions);
  const at::Tensor bias = (*relative_attention_bias)(part);
  at::Tensor mask = relative_attention_bias->all_padding(padding, bias);
  // The last position sees all.
  const bool is_last = part.queries.size() == 1 && part.queries[0].begin + 1 == part.positions;
  if (causal_ && !is_last) {
    const at::TensorOptions integers = bias.options().dtype(at::kLong);
    std::vector<at::Tensor> own;
    for (const Run& queries : part.queries)
      own.push_back(at::arange(queries.begin, queries.begin + queries.count, integers));
    const at::Tensor earlier = at::arange(part.positions, integers).le(at::cat(own).unsqueeze(1));
    const at::Tensor causal = nn::additive_mask(earlier, bias.scalar_type());
    mask = mask.defined() ? at::minimum(mask, causal) : causal;
  }
  return mask.defined() ? bias + mask : bias;
}

at::ScalarType residual_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf ? at::kFloat : dtype;
}

FeedForward::FeedForward(const T5Config& config, at::ScalarType dtype) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, false, dtype));
  };
  if (config.gated) {
    wi_0 = linear("wi_0", config.d_model, config.d_ff);
    wi_1 = linear("wi_1", config.d_model, config.d_ff);
  } else {
    wi = linear("wi", config.d_model, config.d_ff);
  }
  wo = register_module(
      "wo", std::make_shared<nn::Linear>(config.d_ff, config.d_model, false, residual_dtype(dtype)));
  act = register_module("act", std::make_shared<nn::Activation>(config.activation));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.dropout_rate));
}

at::Tensor FeedForward::operator()(const at::Tensor& x) const {
  // Under autocast the product casts its input itself.
  const auto out = [&](const at::Tensor& inner) {
    const at::Tensor dropped = (*dropout)(inner);
    return (*wo)(inner.scalar_type() == at::kHalf ? dropped.to(wo->weight.scalar_type()) : dropped);
  };
  if (wi) return out(act->of_linear(*wi, x));
  const std::vector<at::Tensor> inner = nn::linears(x, {wi_0.get(), wi_1.get()});
  return out((*act)(inner[0], inner[1]));
}

Block::Block(const T5Config& config, Side side, bool first, at::ScalarType dtype) {
  const auto layers = register_module("layer", std::make_shared<torch::nn::Module>("layer"));
  const auto add = [&]<class Inner>(const char* name, const std::shared_ptr<Inner>& inner) {
    return layers->register_module(std::to_string(layers->children().size()),
                                   std::make_shared<Residual<Inner>>(name, inner, config, dtype));
  };
  const Direction own = side == Side::kDecoder ? Direction::kCausal : Direction::kBoth;
  self_attention = add("SelfAttention", std::make_shared<Attention>(config, own, first, dtype));
  if (side == Side::kDecoder) {
    source_attention =
        add("EncDecAttention", std::make_shared<Attention>(config, Direction::kSource, false, dtype));
  }
  feed_forward = add("DenseReluDense", std::make_shared<FeedForward>(config, dtype));
}

at::Tensor Block::operator()(const at::Tensor& x, const at::Tensor& position_bias, const at::Tensor& source,
                             const at::Tensor& padding) const {
  at::Tensor hidden = (*self_attention)(x, at::Tensor(), position_bias);
  if (source_attention) hidden = (*source_attention)(hidden, source, padding);
  return (*feed_forward)(hidden);
}

}  // namespace weft::t5

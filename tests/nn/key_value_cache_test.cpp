// The cache of keys and values, and attention that continues sequences with it.
#include "weft/nn/key_value_cache.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/alibi.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/masks.hpp"

namespace weft::test {

namespace {

using nn::AttentionOptions;
using nn::ForwardContext;
using nn::KeyValueCache;
using nn::RunningUnit;

// The kernels for one query are others than those for whole sequences.
constexpr double kCached = 1e-5;

class Layer final : public nn::Attention {
 public:
  using Attention::attend;
  using Attention::attend_source;
};

struct Heads {
  at::Tensor q, k, v;  // (N, T, H, D), (N, T, G, D)
  Heads of(int64_t begin, int64_t count) const {
    return {q.narrow(1, begin, count), k.narrow(1, begin, count), v.narrow(1, begin, count)};
  }
};

Heads random_heads(int64_t rows, int64_t positions, int64_t heads, int64_t groups) {
  at::manual_seed(5);
  return {at::randn({rows, positions, heads, 4}), at::randn({rows, positions, groups, 4}),
          at::randn({rows, positions, groups, 4})};
}

// Runs forwards of `parts` positions one after another. Returns their results side by side. `mask` is that of
// padding of the first forward.
at::Tensor in_parts(const Layer& layer, KeyValueCache& cache, const Heads& all,
                    const std::vector<int64_t>& parts, const AttentionOptions& options,
                    const at::Tensor& mask = {}) {
  std::vector<at::Tensor> results;
  for (const int64_t count : parts) {
    const Heads own = all.of(cache.past(), count);
    ForwardContext context({}, {}, &cache);
    const RunningUnit unit(context, 0);
    cache.begin(count);
    const at::Tensor first_mask =
        mask.defined() && cache.past() == 0 ? mask.narrow(-1, 0, count) : at::Tensor();
    results.push_back(layer.attend(own.q, own.k, own.v, first_mask, options));
    cache.end();
  }
  return at::cat(results, 1);
}

class CachedAttention : public testing::Test {
 protected:
  const at::NoGradGuard no_grad_;
  Layer layer_;
};

TEST_F(CachedAttention, IsThatOfWholeSequences) {
  for (const bool fused : {true, false})
    for (const int64_t groups : {4, 2, 1})
      for (const int64_t window : {0, 1, 3, 6, 50}) {
        Layer layer;
        layer.fused = fused;
        const Heads all = random_heads(2, 9, 4, groups);
        AttentionOptions options;
        options.causal = true;
        options.window = window;
        options.scale = 0.4;
        const at::Tensor whole = layer.attend(all.q, all.k, all.v, {}, options);
        for (const std::vector<int64_t>& parts :
             {std::vector<int64_t>{4, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {3, 4, 2}, {8, 1}}) {
          KeyValueCache cache;
          EXPECT_TRUE(is_near(in_parts(layer, cache, all, parts, options), whole, kCached))
              << groups << " groups, window " << window << ", " << parts.size() << " parts";
          EXPECT_EQ(cache.past(), 9);
          EXPECT_EQ(cache.layers(), 1u);
        }
      }
}

TEST_F(CachedAttention, TakesPackedHeads) {
  at::manual_seed(3);
  const at::Tensor qkv = at::randn({2, 5, 3, 2, 4});
  AttentionOptions options;
  options.causal = true;
  const at::Tensor whole = layer_.attend(qkv, {}, options);
  KeyValueCache cache;
  std::vector<at::Tensor> results;
  for (const int64_t count : {3, 1, 1}) {
    ForwardContext context({}, {}, &cache);
    const RunningUnit unit(context, 0);
    cache.begin(count);
    results.push_back(layer_.attend(qkv.narrow(1, cache.past(), count), {}, options));
    cache.end();
  }
  EXPECT_TRUE(is_near(at::cat(results, 1), whole, kCached));
}

// A row with padding gives what its tokens give alone.
TEST_F(CachedAttention, DoesNotSeePadding) {
  for (const int64_t groups : {4, 2}) {
    const Heads all = random_heads(2, 9, 4, groups);
    AttentionOptions options;
    options.causal = true;
    KeyValueCache cache(4, {0, 3});
    const at::Tensor allowed = at::ones({2, 1, 1, 9}, at::kBool);
    allowed[1].narrow(-1, 0, 3).fill_(false);
    const at::Tensor mask = nn::additive_mask(allowed, at::kFloat);
    const at::Tensor found = in_parts(layer_, cache, all, {5, 1, 2, 1}, options, mask);
    const Heads second = {all.q.narrow(0, 1, 1), all.k.narrow(0, 1, 1), all.v.narrow(0, 1, 1)};
    const Heads alone = second.of(3, 6);
    EXPECT_TRUE(is_near(found.narrow(0, 1, 1).narrow(1, 3, 6),
                        layer_.attend(alone.q, alone.k, alone.v, {}, options), kCached));
    const Heads first = {all.q.narrow(0, 0, 1), all.k.narrow(0, 0, 1), all.v.narrow(0, 0, 1)};
    EXPECT_TRUE(
        is_near(found.narrow(0, 0, 1), layer_.attend(first.q, first.k, first.v, {}, options), kCached));
  }
}

// Masks with a row of each head, which grouped heads divide.
TEST_F(CachedAttention, AddsMasksOfEachHead) {
  const Heads all = random_heads(2, 6, 4, 2);
  at::manual_seed(9);
  const at::Tensor bias = at::randn({1, 4, 6, 6});
  for (const int64_t last : {1, 2}) {
    KeyValueCache cache;
    at::Tensor found;
    for (const int64_t count : {6 - last, last}) {
      const Heads own = all.of(cache.past(), count);
      ForwardContext context({}, {}, &cache);
      const RunningUnit unit(context, 0);
      cache.begin(count);
      const int64_t past = cache.past();
      const at::Tensor rows = bias.narrow(2, past, count).narrow(3, 0, past + count);
      found = layer_.attend(own.q, own.k, own.v, past == 0 ? at::Tensor() : rows, {});
      cache.end();
    }
    const at::Tensor q = all.q.transpose(1, 2), k = all.k.transpose(1, 2).repeat_interleave(2, 1),
                     v = all.v.transpose(1, 2).repeat_interleave(2, 1);
    const at::Tensor wanted = nn::attention(q, k, v, bias, {}).transpose(1, 2).flatten(2);
    EXPECT_TRUE(is_near(found, wanted.narrow(1, 6 - last, last), kCached));
  }
}

TEST_F(CachedAttention, MakesTheKeysOfAnotherSequenceOnce) {
  const Heads own = random_heads(2, 3, 4, 4), source = random_heads(2, 7, 4, 4);
  int made = 0;
  const auto keys_and_values = [&] {
    ++made;
    return KeyValueCache::KeysValues{source.k, source.v};
  };
  const at::Tensor whole = layer_.attend_source(own.q, keys_and_values, {}, {});
  EXPECT_TRUE(whole.equal(nn::self_attention(own.q, source.k, source.v, {}, {})));
  made = 0;
  KeyValueCache cache;
  for (int64_t position = 0; position < 3; ++position) {
    ForwardContext context({}, {}, &cache);
    const RunningUnit unit(context, 0);
    cache.begin(1);
    EXPECT_TRUE(is_near(layer_.attend_source(own.q.narrow(1, position, 1), keys_and_values, {}, {}),
                        whole.narrow(1, position, 1), kCached));
    cache.end();
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(cache.layers(), 0u);
}

TEST_F(CachedAttention, RefusesWhatDoesNotContinueTheSequences) {
  const Heads all = random_heads(2, 5, 4, 4);
  KeyValueCache cache;
  in_parts(layer_, cache, all, {3}, {});
  ForwardContext context({}, {}, &cache);
  const RunningUnit unit(context, 0);
  cache.begin(1);
  EXPECT_ERROR(layer_.attend(all.q, all.k, all.v, {}, {}), WEFT_FAILED_PRECONDITION, "5 positions",
               "forward of 1", "attend_source");
  const Heads next = all.of(3, 1);
  EXPECT_ERROR(layer_.attend(next.q, next.k, next.v, at::zeros({2, 1, 1, 1}), {}), WEFT_FAILED_PRECONDITION,
               "continue 3 others", "mask of 1 keys, must have 4");
}

class SplitAttention final : public nn::AttentionOperation {
 public:
  at::Tensor positions(const at::Tensor& given, const at::Tensor&) const override { return given; }
  at::Tensor forward(const at::Tensor& q, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                     const AttentionOptions&) const override {
    return q.flatten(2);
  }
};

TEST_F(CachedAttention, IsRefusedOverASplitSequence) {
  Layer layer;
  layer.operation = std::make_shared<SplitAttention>();
  const Heads all = random_heads(1, 2, 2, 2);
  KeyValueCache cache;
  EXPECT_ERROR(in_parts(layer, cache, all, {2}, {}), WEFT_UNIMPLEMENTED, "whole sequences",
               "sequence parallelism");
}

TEST(KeyValueCacheTest, IsThatOfTheRunningUnit) {
  EXPECT_EQ(KeyValueCache::current(), nullptr);
  KeyValueCache cache;
  ForwardContext with({}, {}, &cache), without;
  const RunningUnit outer(with, 0);
  EXPECT_EQ(KeyValueCache::current(), &cache);
  {
    const KeyValueCache::Suspension hidden(&cache);
    EXPECT_EQ(KeyValueCache::current(), nullptr);
  }
  EXPECT_EQ(KeyValueCache::current(), &cache);
  const RunningUnit inner(without, 1);
  EXPECT_EQ(KeyValueCache::current(), nullptr);
}

TEST(KeyValueCacheTest, DoublesItsCapacityAndKeepsWhatItHolds) {
  const at::NoGradGuard no_grad;
  KeyValueCache cache(2);
  at::manual_seed(1);
  const at::Tensor keys = at::randn({1, 9, 2, 4}), values = at::randn({1, 9, 2, 4});
  const int layer = 0;
  std::vector<int64_t> capacities;
  for (int64_t position = 0; position < 9; ++position) {
    cache.begin(1);
    const auto [k, v] = cache.append(&layer, keys.narrow(1, position, 1), values.narrow(1, position, 1));
    EXPECT_TRUE(k.equal(keys.narrow(1, 0, position + 1).transpose(1, 2)));
    EXPECT_TRUE(v.equal(values.narrow(1, 0, position + 1).transpose(1, 2)));
    cache.end();
    capacities.push_back(cache.capacity());
  }
  EXPECT_EQ(capacities, (std::vector<int64_t>{2, 2, 4, 4, 8, 8, 8, 8, 16}));
  cache.begin(30);
  EXPECT_EQ(cache.capacity(), 39);
}

// A forward that failed leaves what the cache held.
TEST(KeyValueCacheTest, BeginsAForwardAnew) {
  const at::NoGradGuard no_grad;
  KeyValueCache cache;
  const at::Tensor first = at::ones({1, 1, 1, 2}), wrong = first * 2, right = first * 3;
  const int layer = 0;
  cache.begin(1);
  cache.append(&layer, first, first);
  cache.end();
  cache.begin(1);
  cache.append(&layer, wrong, wrong);
  cache.begin(1);
  const at::Tensor keys = cache.append(&layer, right, right).keys;
  EXPECT_EQ(cache.past(), 1);
  EXPECT_TRUE(keys.equal(at::cat({first, right}, 2)));
}

TEST(KeyValueCacheTest, SelectsRows) {
  const at::NoGradGuard no_grad;
  KeyValueCache cache(0, {0, 2});
  const at::Tensor keys = at::arange(2 * 3 * 1 * 2).view({2, 3, 1, 2}).to(at::kFloat);
  const int layer = 0;
  const auto field = at::arange(2).view({2, 1});
  cache.begin(3);
  cache.append(&layer, keys, -keys);
  cache.keep("source", field);
  EXPECT_EQ(cache.padding(keys).size(0), 2);
  cache.end();
  cache.select_rows({1, 0, 1});
  EXPECT_EQ(cache.padding_of(0), 2);
  EXPECT_EQ(cache.padding_of(1), 0);
  EXPECT_TRUE(cache.kept().at("source").equal(at::tensor({1, 0, 1}, at::kLong).view({3, 1})));
  cache.begin(1);
  const at::Tensor next = at::zeros({3, 1, 1, 2});
  const auto [k, v] = cache.append(&layer, next, next);
  EXPECT_TRUE(
      k.narrow(2, 0, 3).equal(keys.transpose(1, 2).index_select(0, at::tensor({1, 0, 1}, at::kLong))));
  EXPECT_TRUE(v.narrow(2, 0, 3).equal(-k.narrow(2, 0, 3)));
  EXPECT_EQ(cache.padding(keys).sizes(), (at::IntArrayRef{3, 1, 1, 4}));
  EXPECT_TRUE(cache.padding(keys)[2][0][0].ne(0).equal(at::tensor({1, 1, 0, 0}, at::kLong).to(at::kBool)));
}

TEST(KeyValueCacheTest, CountsPositionsFromTheFirstToken) {
  const at::Tensor like = at::zeros({1});
  EXPECT_TRUE(KeyValueCache().positions(3, like).equal(at::arange(3).view({1, 3})));
  EXPECT_TRUE(KeyValueCache(0, {0, 2}).positions(4, like).equal(
      at::tensor({0, 1, 2, 3, 0, 0, 0, 1}, at::kLong).view({2, 4})));
  KeyValueCache plain(0, {0, 0});
  plain.begin(2);
  EXPECT_FALSE(plain.padding(like).defined());
}

// The bias of ALiBi covers all keys, with the padding of earlier ones.
TEST(KeyValueCacheTest, GivesAlibiAllKeys) {
  const at::NoGradGuard no_grad;
  const nn::Alibi alibi(2);
  const at::Tensor x = at::zeros({2, 5, 6});
  const at::Tensor allowed = at::ones({2, 1, 1, 5}, at::kBool);
  allowed[1].narrow(-1, 0, 2).fill_(false);
  const at::Tensor mask = nn::additive_mask(allowed, at::kFloat), whole = alibi(x, mask);
  KeyValueCache cache(3, {0, 2});
  ForwardContext context({}, {}, &cache);
  const RunningUnit unit(context, 0);
  cache.begin(3);
  EXPECT_TRUE(alibi(x.narrow(1, 0, 3), mask.narrow(-1, 0, 3)).equal(whole.narrow(-1, 0, 3)));
  cache.end();
  for (const int64_t length : {4, 5}) {
    cache.begin(1);
    EXPECT_TRUE(alibi(x.narrow(1, 0, 1), {}).equal(whole.narrow(-1, 0, length)));
    cache.end();
  }
}

}  // namespace

}  // namespace weft::test

// Relative position buckets against tests/oracles/relative_positions, and the position bias.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "t5_layers.hpp"

namespace weft::test {

namespace {

using t5::Buckets;

t5::T5Config tiny() {
  t5::T5Config config;
  config.d_model = 8;
  config.d_kv = 3;
  config.num_heads = 2;
  config.relative_attention_num_buckets = 8;
  config.relative_attention_max_distance = 12;
  return config;
}

std::shared_ptr<t5::Attention> attention(t5::Direction direction) {
  auto made = std::make_shared<t5::Attention>(tiny(), direction, true, at::kFloat);
  at::manual_seed(3);
  made->relative_attention_bias->weight = at::randn({8, 2});
  return made;
}

TEST(T5Buckets, AreThoseOfHuggingFace) {
  const std::string path = std::string(WEFT_ORACLES) + "/../relative_positions/buckets.json";
  const nlohmann::json oracle = parse_json(read_file(path, 1 << 20), path);
  ASSERT_GT(oracle.at("cases").size(), 4);
  for (const nlohmann::json& one : oracle.at("cases")) {
    const Buckets buckets = {one.at("buckets"), one.at("max_distance"), one.at("bidirectional")};
    const auto expected = one.at("bucket_of").get<std::vector<int64_t>>();
    const int64_t first = one.at("first_distance"), count = static_cast<int64_t>(expected.size());
    const at::Tensor found = t5::bucket_of(at::arange(first, first + count), buckets);
    EXPECT_TRUE(found.equal(at::tensor(expected, at::kLong))) << one.dump().substr(0, 80);
  }
}

TEST(T5RelativeBias, HoldsTheNumberOfEachDistance) {
  const auto encoder = attention(t5::Direction::kBoth);
  const at::Tensor bias = encoder->position_bias(9, {});
  ASSERT_EQ(bias.sizes(), at::IntArrayRef({1, 2, 9, 9}));
  const at::Tensor weight = encoder->relative_attention_bias->weight;
  for (int64_t from = 0; from < 9; ++from) {
    for (int64_t to = 0; to < 9; ++to) {
      const int64_t bucket = t5::bucket_of(at::tensor({to - from}, at::kLong), {8, 12, true}).item<int64_t>();
      EXPECT_TRUE(bias.select(3, to).select(2, from)[0].equal(weight[bucket])) << from << " to " << to;
    }
  }
}

// The part of the bias that attention needs if a sequence is split: some heads, or the queries of some runs.
TEST(T5RelativeBias, HasPartsOfTheWhole) {
  const auto encoder = attention(t5::Direction::kBoth);
  const t5::RelativeAttentionBias& bias = *encoder->relative_attention_bias;
  const at::Tensor whole = bias(bias.part(9));
  EXPECT_TRUE(bias({9, {{0, 9}}, {1, 1}}).equal(whole.narrow(1, 1, 1)));
  EXPECT_TRUE(bias({9, {{1, 2}, {6, 3}}, {0, 2}})
                  .equal(whole.index_select(2, at::tensor({1, 2, 6, 7, 8}, at::kLong))));
  EXPECT_TRUE(bias({9, {{4, 0}, {8, 1}}, {0, 2}}).equal(whole.narrow(2, 8, 1)));
}

TEST(T5RelativeBias, ForbidsWhatComesLaterAndPadding) {
  const float lowest = std::numeric_limits<float>::lowest();
  const at::Tensor padding = at::zeros({3, 1, 1, 4});
  padding[1][0][0][1] = lowest;
  const at::Tensor bias = attention(t5::Direction::kCausal)->position_bias(4, padding);
  ASSERT_EQ(bias.sizes(), at::IntArrayRef({3, 2, 4, 4}));
  EXPECT_TRUE(bias.isfinite().all().item<bool>());
  const at::Tensor forbidden = at::ones({4, 4}, at::kBool).triu(1).expand({3, 2, 4, 4}).clone();
  forbidden[1].select(2, 1).fill_(true);
  EXPECT_TRUE(bias.eq(lowest).equal(forbidden));
}

// Sums beyond 65504, the largest number of fp16.
TEST(T5FeedForward, KeepsItsOutputInFp32WhereOtherLayersAreInFp16) {
  for (const bool gated : {false, true}) {
    t5::T5Config config = tiny();
    config.d_ff = 16;
    config.gated = gated;
    config.dropout_rate = 0;
    t5::FeedForward half(config, at::kHalf), exact(config, at::kDouble);
    EXPECT_EQ(half.wo->weight.scalar_type(), at::kFloat);
    EXPECT_EQ((gated ? half.wi_1 : half.wi)->weight.scalar_type(), at::kHalf);
    at::manual_seed(4);
    for (const auto& item : half.named_parameters()) {
      const at::Tensor values = at::rand(item.value().sizes()) * (item.key() == "wo.weight" ? 3e4 : 1);
      for (t5::FeedForward* const layer : {&half, &exact}) {
        at::Tensor parameter = layer->named_parameters()[item.key()];
        const at::Tensor value = values.to(at::kHalf).to(parameter.scalar_type());
        parameter.unsafeGetTensorImpl()->shallow_copy_from(value.getIntrusivePtr());
      }
    }
    const at::Tensor x = at::rand({2, 5, config.d_model}).to(at::kHalf);
    const at::Tensor found = half(x), wanted = exact(x.to(at::kDouble));
    EXPECT_EQ(found.scalar_type(), at::kFloat);
    EXPECT_GT(wanted.min().item<double>(), 65504);
    EXPECT_TRUE(at::allclose(found.to(at::kDouble), wanted, 5e-3)) << gated;
  }
  EXPECT_EQ(t5::FeedForward(tiny(), at::kBFloat16).wo->weight.scalar_type(), at::kBFloat16);
}

}  // namespace

}  // namespace weft::test

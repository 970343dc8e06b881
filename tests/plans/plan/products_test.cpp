// The operations of a model's matrix products, against counts by hand.
#include "plan/products.hpp"

#include <gtest/gtest.h>

#include "invented_policy.hpp"

namespace weft::plan::test {
namespace {

// Attention with grouped queries: 4 heads of 8 channels, 2 of keys, in a model of width 12.
ModelDescription grouped() {
  return {.architecture = "Grouped",
          .nodes = {{"embed", "Embedding", {{"weight", {50, 12}}}},
                    {"attn", "Attention", {}, {{"num_heads", 4}, {"num_key_value_heads", 2}}},
                    {"attn.q", "Linear", {{"weight", {32, 12}}, {"bias", {32}}}},
                    {"attn.k", "Linear", {{"weight", {16, 12}}}},
                    {"attn.v", "Linear", {{"weight", {16, 12}}}},
                    {"attn.o", "Linear", {{"weight", {12, 32}}}},
                    {"norm", "RMSNorm", {{"weight", {12}}}},
                    {"head", "Linear", {{"weight", {50, 12}}}}},
          .ties = {{"head.weight", "embed.weight"}}};
}

TEST(Products, AreUnknownOfOtherWeightsAdaptersAndAttention) {
  ModelDescription model = grouped();
  model.nodes.push_back({"patches", "PatchConvolution", {{"weight", {12, 3, 4, 4}}}});
  EXPECT_FALSE(count_products(model));
  model = grouped();
  model.nodes[2].added = AddedParameters{"lora", {}, {{"lora_A.weight", {2, 12}}}};
  EXPECT_FALSE(count_products(model));
  model = grouped();
  model.nodes[1].attributes.clear();
  EXPECT_FALSE(count_products(model));
  model = grouped();
  for (const int erased : {2, 2, 2, 2}) model.nodes.erase(model.nodes.begin() + erased);
  EXPECT_FALSE(count_products(model));
}

TEST(Products, CountTiedWeightsWhereTheyMultiply) {
  const auto products = count_products(grouped());
  ASSERT_TRUE(products);
  EXPECT_EQ(products->weights, 12 * (32 + 16 + 16 + 32) + 50 * 12);
  EXPECT_EQ(products->attention_channels, 4 * 8);
  EXPECT_EQ(operations_per_token(*products, 10), 6.0 * (12 * (32 + 16 + 16 + 32) + 50 * 12) + 12.0 * 32 * 10);
}

TEST(Products, AreThoseOfThePartsOfFusedProjections) {
  const auto products = count_products(Gpt2{.layers = 3, .embedding = 8}.describe());
  ASSERT_TRUE(products);
  EXPECT_EQ(products->attention_channels, 3 * 8);
  EXPECT_EQ(products->weights, 3 * 12 * 8 * 8 + 101 * 8);
}

}  // namespace
}  // namespace weft::plan::test

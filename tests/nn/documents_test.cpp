// Attention inside the documents of rows, against the same with a mask of all positions.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "layers/documents.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/alibi.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/masks.hpp"

namespace weft::test {

namespace {

using nn::AttentionOptions;

constexpr int64_t kRows = 3, kPositions = 75;

// Documents of 40, 1 and 34 positions; of 75; and of 3, 2 and 70.
at::Tensor begins() {
  at::Tensor starts = at::zeros({kRows, kPositions}, at::kBool);
  for (const auto& [row, position] : {std::pair(0, 40), {0, 41}, {2, 3}, {2, 5}})
    starts[row][position].fill_(true);
  return nn::document_begins(starts, kRows);
}

TEST(DocumentBegins, AreTheFirstPositionsOfDocuments) {
  const at::Tensor starts = at::tensor({1, 0, 0, 1, 1, 0}).to(at::kBool).view({1, 6});
  const at::Tensor found = nn::document_begins(starts, 2);
  EXPECT_EQ(found.sizes(), (at::IntArrayRef{2, 1, 1, 6}));
  for (const int row : {0, 1})
    EXPECT_TRUE(found[row].flatten().equal(at::tensor({0, 0, 0, 3, 4, 4}, at::kLong)));
  EXPECT_TRUE(nn::positions_in_documents(found)[1].equal(at::tensor({0, 1, 2, 0, 0, 1}, at::kLong)));
  EXPECT_TRUE(nn::document_mask(found)[0][0][4].equal(at::tensor({0, 0, 0, 0, 1, 1}).to(at::kBool)));
  EXPECT_TRUE(nn::are_document_begins(found));
  EXPECT_FALSE(nn::are_document_begins(nn::document_mask(found)));
  EXPECT_FALSE(nn::document_begins(at::zeros({2, 6}, at::kBool), 2).defined());
}

// One way to attend: what is compared.
struct Way {
  const char* name;
  AttentionOptions options;
  std::vector<int64_t> bias = {};  // the shape of what is added to the scores; empty: nothing
  bool is_learned = false;
};

std::vector<Way> ways() {
  return {{"causal", {.causal = true}},
          {"to all", {}},
          {"window", {.causal = true, .window = 7}},
          {"by position", {.causal = true}, {kRows, 4, 1, kPositions}},
          {"learned", {.scale = 0.4}, {1, 4, kPositions, kPositions}, true},
          {"learned by row", {.causal = true}, {kRows, 4, kPositions, kPositions}, true},
          {"soft cap", {.causal = true, .soft_cap = 2}},
          {"plain", {.causal = true, .fused = false}}};
}

struct Result {
  at::Tensor out;
  std::vector<at::Tensor> gradients;
};

// With the kernel (16 channels, fp32) and without; with as many heads of keys as of queries, and fewer.
TEST(Documents, HaveTheAttentionAndGradientsOfAMask) {
  for (const Way& way : ways())
    for (const auto& [dtype, size] : {std::pair(at::kFloat, 16), {at::kFloat, 12}, {at::kDouble, 16}})
      for (const int64_t groups : {2, 4}) {
        SCOPED_TRACE(testing::Message() << way.name << ", " << dtype << ", " << size << ", " << groups);
        at::manual_seed(groups);
        const auto leaf = [&, dtype = dtype](at::IntArrayRef shape) {
          return at::randn(shape, dtype).requires_grad_(true);
        };
        std::vector<at::Tensor> leaves = {leaf({kRows, kPositions, 4, size}),
                                          leaf({kRows, kPositions, groups, size}),
                                          leaf({kRows, kPositions, groups, size})};
        at::Tensor bias;
        if (!way.bias.empty()) bias = at::randn(way.bias, dtype).requires_grad_(way.is_learned);
        if (way.is_learned) leaves.push_back(bias);
        const at::Tensor up = at::randn({kRows, kPositions, 4 * size}, dtype);
        const auto attend = [&](bool masked) {
          AttentionOptions options = way.options;
          at::Tensor mask = bias;
          if (masked)
            mask = nn::with_document_mask(bias, begins(), leaves[0]);
          else if (bias.defined())
            options.documents = begins();
          else
            mask = begins();
          Result result = {nn::self_attention(leaves[0], leaves[1], leaves[2], mask, options), {}};
          result.gradients = torch::autograd::grad({(result.out * up).sum()}, leaves);
          return result;
        };
        const Result found = attend(false), expected = attend(true);
        const double tolerance = dtype == at::kFloat ? kKernelFp32 : kKernelFp64;
        EXPECT_TRUE(is_near(found.out, expected.out, tolerance));
        for (size_t i = 0; i < leaves.size(); ++i)
          EXPECT_TRUE(is_near(found.gradients[i], expected.gradients[i], 10 * tolerance)) << i;
      }
}

// In one tensor, and by head first.
TEST(Documents, AreTheSameInEveryLayout) {
  at::manual_seed(3);
  for (const int64_t size : {16, 12}) {
    const at::Tensor qkv = at::randn({kRows, kPositions, 3, 2, size}).requires_grad_(true);
    const std::vector<at::Tensor> parts = qkv.unbind(2);
    const AttentionOptions options = {.causal = true};
    const at::Tensor packed = nn::self_attention(qkv, begins(), options),
                     apart = nn::self_attention(parts[0], parts[1], parts[2], begins(), options);
    const auto first = [](const at::Tensor& x) { return x.transpose(1, 2); };
    const at::Tensor by_head =
        nn::attention(first(parts[0]), first(parts[1]), first(parts[2]), begins(), options);
    EXPECT_TRUE(packed.equal(apart));
    EXPECT_TRUE(first(by_head).flatten(2).equal(apart));
    const at::Tensor up = at::randn_like(packed);
    EXPECT_TRUE(is_near(torch::autograd::grad({(packed * up).sum()}, {qkv}, {}, true)[0],
                        torch::autograd::grad({(apart * up).sum()}, {qkv}, {}, true)[0], kKernelFp32));
  }
}

TEST(Documents, DropTheSameWeightsAfterTheSameSeed) {
  const at::Tensor q = at::randn({kRows, kPositions, 2, 16});
  const AttentionOptions options = {.causal = true, .dropout = 0.3, .random_stream = 2};
  const auto drawn = [&] {
    at::manual_seed(5);
    return nn::self_attention(q, q, q, begins(), options);
  };
  const at::Tensor found = drawn();
  EXPECT_TRUE(drawn().equal(found));
  EXPECT_FALSE(nn::self_attention(q, q, q, begins(), {.causal = true}).equal(found));
  // Those of the second document of the first row alone: what comes before it has no part in them.
  at::Tensor changed = q.clone();
  changed[0].narrow(0, 0, 40).add_(1);
  at::manual_seed(5);
  const at::Tensor again = nn::self_attention(changed, changed, changed, begins(), options);
  EXPECT_TRUE(again[0].narrow(0, 40, 35).equal(found[0].narrow(0, 40, 35)));
  EXPECT_FALSE(again[0].equal(found[0]));
}

TEST(Documents, AreOfTheSequenceThatAttendsToItself) {
  const at::Tensor q = at::randn({kRows, 5, 2, 16}), k = at::randn({kRows, kPositions, 2, 16});
  EXPECT_ERROR(nn::self_attention(q, k, k, begins(), {}), WEFT_INVALID_ARGUMENT, "5 queries");
  EXPECT_ERROR(nn::self_attention(q, q, q, begins(), {}), WEFT_INVALID_ARGUMENT, "75 positions");
  const at::Tensor one = k.narrow(0, 0, 1);
  EXPECT_ERROR(nn::self_attention(one, one, one, begins(), {}), WEFT_INVALID_ARGUMENT, "3 rows");
}

TEST(Documents, HavePositionsOfAlibiThatBeginAgain) {
  const nn::Alibi alibi(2);
  const at::Tensor bias = alibi(at::zeros({kRows, kPositions, 6}), begins());
  ASSERT_EQ(bias.sizes(), (at::IntArrayRef{kRows, 2, 1, kPositions}));
  const at::Tensor slopes = nn::alibi_slopes(2);
  EXPECT_TRUE(bias[0].select(-1, 43).flatten().equal(2 * slopes));
  EXPECT_TRUE(bias[1].select(-1, 43).flatten().equal(43 * slopes));
}

}  // namespace

}  // namespace weft::test

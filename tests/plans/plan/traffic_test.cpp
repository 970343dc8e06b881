// What a plan says that ranks send, against counts by hand. The tests of bytes under tests/plugins and
// tests/policies compare it with what jobs send.
#include "plan/traffic.hpp"
#include "gpt2_policy.hpp"
#include "invented_policy.hpp"
#include "plan/json_policy.hpp"

namespace weft::plan::test {
namespace {

constexpr int64_t kLayers = 2, kWidth = 12, kRows = 3;

// Returns the shape of a micro-batch of 3 rows in fp32.
TrafficShape rows_of(int64_t positions) {
  return {.sequences = {{"", positions, kRows}}};
}

Plan gpt2(const ParallelSizes& sizes) {
  return build_plan(Gpt2{.layers = kLayers, .embedding = kWidth}.describe(), gpt2_policy(), sizes);
}

// Returns the bytes in the order of kCollectives: all-reduced, gathered, scattered, exchanged and sent.
SentBytes gpt2_bytes(const ParallelSizes& sizes, int64_t positions = 8) {
  return sent_bytes(gpt2(sizes), rows_of(positions));
}

constexpr int64_t kLabels = 8 * kRows, kActivation = kLabels * kWidth;

TEST(Traffic, IsNothingOnOneRank) {
  EXPECT_EQ(gpt2_bytes({}), SentBytes());
  EXPECT_EQ(explain(gpt2({})).find("\nsends "), std::string::npos);
}

TEST(Traffic, IsFourActivationsInATensorParallelBlock) {
  for (const int64_t ranks : {2, 4}) {
    const int64_t bytes = ((4 * kLayers + 2) * kActivation + 3 * kLabels) * 4;
    EXPECT_EQ(gpt2_bytes({.tensor = static_cast<uint32_t>(ranks)}),
              (SentBytes{2 * bytes * (ranks - 1) / ranks, 0, 0, 0, 0}));
  }
}

TEST(Traffic, HasAllClassesOfLogits) {
  const int64_t bytes = (4 * kLayers + 2) * kActivation * 4, classes = 51;  // on the first of two ranks
  EXPECT_EQ(gpt2_bytes({.tensor = 2, .parallel_output = false}),
            (SentBytes{bytes, kLabels * classes * 4, 0, 0, 0}));
}

// A half of each activation is gathered or scattered; the head's input, the loss, norms, biases of
// row-parallel layers and positions are all-reduced.
TEST(Traffic, GathersTheInputsOfRegionsTwiceForSplitSequences) {
  const int64_t half = kActivation * 4 / 2;
  const int64_t reduced = kActivation + 3 * kLabels + kLayers * 6 * kWidth + 16 * kWidth;
  EXPECT_EQ(gpt2_bytes({.tensor = 2, .sequence_mode = "split_gather"}),
            (SentBytes{reduced * 4, (6 * kLayers + 2) * half, (4 * kLayers + 1) * half, 0, 0}));
  // The linear layers of a ring send to a neighbour; the embedding, the end and gradients of inputs do not.
  EXPECT_EQ(gpt2_bytes({.tensor = 2, .sequence_mode = "ring"}),
            (SentBytes{reduced * 4, 2 * half, (2 * kLayers + 1) * half, 0, 8 * kLayers * half}));
}

// Of 7 positions the first rank has 3 and the second 4. Collectives pad the parts; a ring does not.
TEST(Traffic, IsPaddedForUnevenParts) {
  const int64_t position = kRows * kWidth * 4;
  const SentBytes gathered = gpt2_bytes({.tensor = 2, .sequence_mode = "split_gather"}, 7);
  EXPECT_EQ(gathered[1], (6 * kLayers + 2) * 4 * position);
  EXPECT_EQ(gathered[2], (4 * kLayers + 1) * 4 * position);
  const SentBytes ring = gpt2_bytes({.tensor = 2, .sequence_mode = "ring"}, 7);
  EXPECT_EQ(ring[4], kLayers * 2 * (3 + 3 + 4 + 3) * position);
}

// Four tensors, queries, keys, values and the result, pass in forward and in backward.
TEST(Traffic, FollowsTheHeadsOfAttentionOnASequenceAxis) {
  for (const int64_t ranks : {2, 4}) {
    const auto size = static_cast<uint32_t>(ranks);
    const int64_t part = kActivation / ranks, c = 2 * part;
    EXPECT_EQ(gpt2_bytes({.sequence = size, .sequence_mode = "all_to_all"}),
              (SentBytes{0, 0, 0, kLayers * 8 * part * (ranks - 1) / ranks * 4, 0}));
    for (const uint32_t inner : {1u, 2u})
      EXPECT_EQ(gpt2_bytes({.sequence = size, .sequence_mode = "ring_attn", .inner_ring = inner}),
                (SentBytes{0, 0, 0, 0, kLayers * (2 * (ranks - 1) * c + ranks * c) * 4}));
  }
}

TEST(Traffic, PassesForwardTwiceForRecomputedModules) {
  const Plan plan = gpt2({.tensor = 2});
  TrafficShape shape = rows_of(8);
  const int64_t once = sent_bytes(plan, shape)[0];
  shape.recomputed = {"h.0.attn.c_attn", "h.0.attn.c_proj", "lm_head"};
  EXPECT_EQ(sent_bytes(plan, shape)[0], once + kActivation * 4);
  shape.recomputed.clear();
  shape.element_size = 2;  // half precision; the loss is in fp32
  EXPECT_EQ(sent_bytes(plan, shape)[0], (once + 3 * kLabels * 4) / 2);
}

TEST(Traffic, NeedsTheLengthOfEverySequence) {
  EXPECT_THROW(sent_bytes(gpt2({.tensor = 2}), {.sequences = {{"encoder", 8, 1}}}), Error);
}

// Returns the bytes of gradients that several of four ranks sum, for a layer with 5 inputs.
int64_t gradient_bytes(const char* attributes, int64_t outputs) {
  const ModelDescription model = {
      "Small", "{}", {node("qkv", "Linear", {{"weight", {outputs, 5}}, {"bias", {outputs}}})}, {}};
  const Plan plan = build_plan(
      model,
      parse_json_policy(
          fmt::format(
              R"({{"name": "p", "entries": [{{"on": "qkv", "operation": "weft.linear_column/1", {}}}]}})",
              attributes),
          "p.json"),
      {.tensor = 4});
  return sent_bytes(plan, rows_of(8))[0] - 2 * kLabels * 5 * 4 * 3 / 4;  // without the input's
}

TEST(Traffic, IsTheGradientsOfHeadsThatSeveralRanksHold) {
  EXPECT_EQ(gradient_bytes(R"("heads": 4)", 8), 0);
  // Keys and values of 2 features for each two ranks: 2 x 5 weights and 2 biases each, summed by 2 ranks.
  EXPECT_EQ(gradient_bytes(R"("fused": 3, "heads": 8, "key_heads": 2)", 24), 2 * (10 + 2) * 4);
  // One head of 4 features for all: its weights and biases, summed by 4 ranks.
  EXPECT_EQ(gradient_bytes(R"("fused": 3, "heads": 4, "key_heads": 1)", 24), 2 * (20 + 4) * 4 * 2 * 3 / 4);
  EXPECT_EQ(gradient_bytes(R"("heads": 1)", 4), (20 + 4) * 4 * 2 * 3 / 4);
}

TEST(Explain, TellsWhatModulesSend) {
  const std::string split = explain(gpt2({.tensor = 2, .sequence_mode = "split_gather"}));
  EXPECT_TELLS(
      split,
      "sends       4: h.{0..1}.attn.c_attn, h.{0..1}.mlp.c_fc  forward: all-gather of 12 elements per "
      "position; backward: all-gather of 12 elements per position, reduce-scatter of 12 elements per "
      "position\n");
  EXPECT_TELLS(split, "sends       1: wpe  backward: all-reduce of 192 elements\n");
  EXPECT_TELLS(
      explain(gpt2({.sequence = 2, .sequence_mode = "ring_attn"})),
      "sends       2: h.{0..1}.attn  forward: send of 24 elements per position; backward: send of 48 "
      "elements per position\n");
}

}  // namespace
}  // namespace weft::plan::test

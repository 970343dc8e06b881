// Tests the policy of GPT-2, compiled into the test as C.
#include <algorithm>
#include <random>

#include "gpt2_policy.hpp"
#include "invented_policy.hpp"

namespace weft::plan::test {
namespace {

const Replacement& entry_of(const Plan& plan, std::string_view path) {
  for (const Replacement& entry : plan.replacements) {
    for (const PlannedNode& node : entry.nodes) {
      if (node.path == path) return entry;
    }
  }
  throw Error(WEFT_NOT_FOUND, fmt::format("no entry for {}", path));
}

// Returns the shapes that a rank keeps: "weight (12, 18) bias (18)".
std::string local(const Plan& plan, std::string_view path) {
  const auto text = [](const PlannedNode& node) {
    std::vector<std::string> texts;
    for (const PlannedParameter& cut : node.params)
      texts.push_back(fmt::format("{} ({})", cut.name, fmt::join(cut.local(0), ", ")));
    return fmt::format("{}", fmt::join(texts, " "));
  };
  for (const PlannedNode& node : plan.replicated) {
    if (node.path == path) return text(node);
  }
  for (const PlannedNode& node : entry_of(plan, path).nodes) {
    if (node.path == path) return text(node);
  }
  return "";
}

TEST(Gpt2Policy, RefusesHeadsThatDoNotDivideAndNamesTheNearestSizes) {
  const std::string message =
      refusal(Gpt2{.embedding = 12, .heads = 6}.describe(), gpt2_policy(), {.tensor = 4});
  EXPECT_TELLS(message, "policy \"gpt2\" on GPT2LMHeadModel (tensor_size 4");
  EXPECT_TELLS(message, "\"n_head\" is 6, not a multiple of 4; the nearest sizes that divide it: 3 and 6");
}

// The configuration may have the number under its other name, or leave it out.
TEST(Gpt2Policy, ReadsTheNumberOfHeadsUnderEveryName) {
  ModelDescription model = Gpt2{.embedding = 24, .heads = 12}.describe();
  model.config_json = R"({"num_attention_heads": 12})";
  EXPECT_TELLS(
      refusal(model, gpt2_policy(), {.tensor = 5}),
      "\"num_attention_heads\" is 12, not a multiple of 5; the nearest sizes that divide it: 4 and 6");
  EXPECT_EQ(build_plan(model, gpt2_policy(), {.tensor = 4}).divisions.front().nodes.at(0).after, 3);
  model.config_json = "{}";
  EXPECT_TELLS(refusal(model, gpt2_policy(), {.tensor = 5}),
               "no number of attention heads (n_head, num_attention_heads), and the default, 12,");
  EXPECT_EQ(build_plan(model, gpt2_policy(), {.tensor = 4}).divisions.front().nodes.at(0).after, 3);
}

TEST(Gpt2Policy, RefusesAModelOfAnotherFamily) {
  const ModelDescription other = {
      "Small", R"({"n_head": 4})", {node("embed", "Embedding", {{"weight", {8, 4}}})}, {}};
  EXPECT_TELLS(refusal(other, gpt2_policy()), "pattern \"wte\" matches no module; the nearest: embed");
}

TEST(Gpt2Policy, CutsEveryClassForOneTwoAndFourRanks) {
  for (const char* architecture :
       {"GPT2Model", "GPT2LMHeadModel", "GPT2DoubleHeadsModel", "GPT2ForSequenceClassification",
        "GPT2ForTokenClassification", "GPT2ForQuestionAnswering"}) {
    for (const bool tied : {true, false}) {
      for (const uint32_t size : {1u, 2u, 4u}) {
        const ModelDescription model = Gpt2{.architecture = architecture, .tied = tied}.describe();
        const Plan plan = build_plan(model, gpt2_policy(), {.tensor = size});
        const std::string which = fmt::format("{} on {}", architecture, size);
        const int64_t ranks = size, vocabulary = (101 + ranks - 1) / ranks;
        EXPECT_EQ(local(plan, "wte"), fmt::format("weight ({}, 12)", vocabulary)) << which;
        EXPECT_EQ(local(plan, "h.1.attn.c_attn"), fmt::format("weight (12, {0}) bias ({0})", 36 / ranks))
            << which;
        EXPECT_EQ(local(plan, "h.1.attn.c_proj"), fmt::format("weight ({}, 12) bias (12)", 12 / ranks))
            << which;
        EXPECT_EQ(local(plan, "h.0.mlp.c_fc"), fmt::format("weight (12, {0}) bias ({0})", 48 / ranks))
            << which;
        EXPECT_EQ(local(plan, "h.0.mlp.c_proj"), fmt::format("weight ({}, 12) bias (12)", 48 / ranks))
            << which;
        EXPECT_EQ(local(plan, "ln_f"), "weight (12) bias (12)") << which;
        EXPECT_EQ(plan.divisions.front().nodes.at(1).after, 4 / ranks) << which;
        const bool has_head = std::string_view(architecture) == "GPT2LMHeadModel" ||
                              std::string_view(architecture) == "GPT2DoubleHeadsModel";
        EXPECT_EQ(plan.ties.size(), has_head && tied ? 1u : 0u) << which;
        if (has_head) EXPECT_EQ(local(plan, "lm_head"), local(plan, "wte")) << which;
        EXPECT_TRUE(unsupported(plan).empty()) << which;
      }
    }
  }
}

TEST(Gpt2Policy, KeepsTheSmallHeadsWhole) {
  EXPECT_EQ(local(build_plan(Gpt2{.architecture = "GPT2ForSequenceClassification"}.describe(), gpt2_policy(),
                             {.tensor = 2}),
                  "score"),
            "weight (3, 12)");
  EXPECT_EQ(local(build_plan(Gpt2{.architecture = "GPT2ForQuestionAnswering"}.describe(), gpt2_policy(),
                             {.tensor = 2}),
                  "qa_outputs"),
            "weight (2, 12) bias (2)");
}

TEST(Gpt2Policy, CountsTheParametersOfOneRank) {
  const Plan plan = build_plan(Gpt2{}.describe(), gpt2_policy(), {.tensor = 2});
  // Embeddings 101 * 12 and 16 * 12, blocks 12 E^2 + 13 E each, the last norm 2 E; lm_head is wte.
  EXPECT_EQ(plan.num_parameters, 101 * 12 + 16 * 12 + 2 * (12 * 144 + 13 * 12) + 24);
  // The larger half of the vocabulary, all positions, half of the matrices and of the column biases (3 E + 4
  // E).
  EXPECT_EQ(plan.num_local_parameters, 51 * 12 + 16 * 12 + 2 * (6 * 144 + 42 + 6 * 12) + 24);
}

TEST(Digest, ChangesWithAnAttributeASizeAndAShape) {
  const std::string digest = build_plan(Gpt2{}.describe(), gpt2_policy(), {}).digest;
  const auto other = [](const Gpt2& model, const ParallelSizes& sizes) {
    return build_plan(model.describe(), gpt2_policy(), sizes).digest;
  };
  EXPECT_NE(other({}, {.flash_attention = false}), digest);
  EXPECT_NE(other({}, {.parallel_output = false}), digest);
  EXPECT_NE(other({}, {.tensor = 2}), digest);
  EXPECT_NE(other({.vocabulary = 102}, {}), digest);
  EXPECT_NE(other({.tied = false}, {}), digest);
  EXPECT_NE(empty_plan(Gpt2{}.describe(), {}).digest, digest);
  EXPECT_EQ(other({}, {.data = 8}), digest);  // the plan does not depend on the data axis
}

TEST(Digest, IsTheSameForEveryOrderOfModules) {
  ModelDescription model = Gpt2{.layers = 12}.describe();
  const Plan plan = build_plan(model, gpt2_policy(), {.tensor = 2});
  std::mt19937 generator(7);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(model.nodes.begin(), model.nodes.end(), generator);
    const Plan shuffled = build_plan(model, gpt2_policy(), {.tensor = 2});
    EXPECT_EQ(shuffled.digest, plan.digest);
    EXPECT_EQ(explain(shuffled), explain(plan));
  }
}

TEST(Digest, IsTheSameForEverySpellingOfThePlan) {
  const auto one = policy([](const Call& c) {
    c.on("h.*.ln_[12], ln_f", "weft.layer_norm/1");
    c.on("wpe", "weft.embedding_vocab/1");
  });
  const auto other = policy([](const Call& c) {
    c.on("wpe", "weft.embedding_vocab/1");
    c.on("ln_f", "weft.layer_norm/1", {flag("fused", true)});
    for (const char* path : {"h.1.ln_2", "h.0.ln_1", "h.1.ln_1", "h.0.ln_2"}) c.on(path, "weft.layer_norm/1");
  });
  const ModelDescription model = Gpt2{}.describe();
  EXPECT_EQ(build_plan(model, one, {}).digest, build_plan(model, other, {}).digest);
}

// Ranks compare the digest, so it must not depend on the machine.
TEST(Digest, IsWhatItWasForATinyGpt2) {
  const Plan plan = build_plan(Gpt2{.layers = 1}.describe(), gpt2_policy(), {.tensor = 2});
  EXPECT_EQ(canonical_text(plan), R"(weft plan 1
architecture GPT2LMHeadModel
policy gpt2
tensor 2
sequence 1 mode whole
divide h.0.attn num_heads 4->2
keep h.0.ln_1 LayerNorm weight(12) bias(12)
keep h.0.ln_2 LayerNorm weight(12) bias(12)
keep ln_f LayerNorm weight(12) bias(12)
replace h.0.attn Attention weft.attention/1 flash=true
replace h.0.attn.c_attn Conv1D weft.linear_column/1 fused=3 heads=0 input="own" interleaved=false key_heads=0 layout="in_out" weight(12,36)->(dim 1 0+6 12+6 24+6|6+6 18+6 30+6) bias(36)->(dim 0 0+6 12+6 24+6|6+6 18+6 30+6)
replace h.0.attn.c_proj Conv1D weft.linear_row/1 layout="in_out" weight(12,12)->(dim 0 0+6|6+6) bias(12)
replace h.0.mlp.c_fc Conv1D weft.linear_column/1 fused=1 heads=0 input="own" interleaved=false key_heads=0 layout="in_out" weight(12,48)->(dim 1 0+24|24+24) bias(48)->(dim 0 0+24|24+24)
replace h.0.mlp.c_proj Conv1D weft.linear_row/1 layout="in_out" weight(48,12)->(dim 0 0+24|24+24) bias(12)
replace lm_head Linear weft.linear_vocab/1 parallel_output=true split=false weight(101,12)->(dim 0 0+51|51+50)
replace stream_end Identity weft.sequence_end/1
replace wpe Embedding weft.embedding/1 weight(16,12)
replace wte Embedding weft.embedding_vocab/1 weight(101,12)->(dim 0 0+51|51+50)
require n_head 2
tie lm_head.weight wte.weight
)");
  EXPECT_EQ(plan.digest, "b3744d46ab38b078ad5a67af5872fa8c040b4236196041c178bae6eb5a72e947");
}

TEST(Explain, IsATableWithOneLineAnEntry) {
  const std::string text = explain(build_plan(Gpt2{.layers = 12}.describe(), gpt2_policy(), {.tensor = 2}));
  EXPECT_EQ(text, R"(plan of GPT2LMHeadModel (policy gpt2), tensor_size 2, sequence_size 1
  pattern          modules                    operation               attributes                    shape -> of one rank
  wte              1: wte                     weft.embedding_vocab/1  -                             weight (101, 12) -> (51, 12) to (50, 12) on the last
  wpe              1: wpe                     weft.embedding/1        -                             weight (16, 12)
  h.*.attn.c_attn  12: h.{0..11}.attn.c_attn  weft.linear_column/1    fused = 3, layout = "in_out"  weight (12, 36) -> (12, 18), bias (36) -> (18)
  h.*.attn.c_proj  12: h.{0..11}.attn.c_proj  weft.linear_row/1       layout = "in_out"             weight (12, 12) -> (6, 12), bias (12)
  h.*.mlp.c_fc     12: h.{0..11}.mlp.c_fc     weft.linear_column/1    layout = "in_out"             weight (12, 48) -> (12, 24), bias (48) -> (24)
  h.*.mlp.c_proj   12: h.{0..11}.mlp.c_proj   weft.linear_row/1       layout = "in_out"             weight (48, 12) -> (24, 12), bias (12)
  h.*.attn         12: h.{0..11}.attn         weft.attention/1        -                             -
  stream_end       1: stream_end              weft.sequence_end/1     -                             -
  lm_head          1: lm_head                 weft.linear_vocab/1     parallel_output = true        weight (101, 12) -> (51, 12) to (50, 12) on the last
cut         h.*.attn.c_attn  dimension 1: 0..5 12..17 24..29 | 6..11 18..23 30..35
divide      h.*.attn  num_heads 4 -> 2  12: h.{0..11}.attn
tie         lm_head.weight = wte.weight
require     n_head = 4 is a multiple of 2
replicated  25: h.{0..11}.ln_1, h.{0..11}.ln_2, ln_f  weight (12), bias (12)
sends       25: wte, h.{0..11}.attn.c_proj, h.{0..11}.mlp.c_proj  forward: all-reduce of 12 elements per position
sends       24: h.{0..11}.attn.c_attn, h.{0..11}.mlp.c_fc  backward: all-reduce of 12 elements per position
sends       1: lm_head  forward: all-reduce of 3 elements per position; backward: all-reduce of 12 elements per position
parameters  24036, 12564 on a rank of the tensor axis
digest      0ba5fb8bb133fefe1d0f5653cfe5f43be614eff0ce95b2c496279d51809ceffa
)");
}

TEST(Explain, SaysThatThereIsNoPolicy) {
  EXPECT_TELLS(explain(empty_plan(Gpt2{}.describe(), {})),
               "plan of GPT2LMHeadModel (no policy, so every operation is the model's own)");
}

}  // namespace
}  // namespace weft::plan::test

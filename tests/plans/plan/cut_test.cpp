// How output features are sharded: contiguous, fused parts of one size or of several, interleaved, and with
// fewer heads of keys than ranks.
#include "axes/cut.hpp"
#include "invented_policy.hpp"
#include "plan/json_policy.hpp"

namespace weft::plan::test {
namespace {

// Returns the plan of one layer with `extent` output features and an entry with these attributes.
Plan plan_of(int64_t extent, const std::string& attributes, uint32_t ranks, const char* kind = "Linear") {
  const bool in_out = std::string_view(kind) == "Conv1D";
  const std::vector<int64_t> shape =
      in_out ? std::vector<int64_t>{5, extent} : std::vector<int64_t>{extent, 5};
  const ModelDescription model = {
      "Small", "{}", {node("qkv", kind, {{"weight", shape}, {"bias", {extent}}})}, {}};
  const std::string entry = fmt::format(
      R"({{"name": "invented", "entries": [{{"on": "qkv", "operation": "weft.linear_column/1", "layout": "{}"{}}}]}})",
      in_out ? "in_out" : "out_in", attributes.empty() ? "" : ", " + attributes);
  return build_plan(model, parse_json_policy(entry, "p.json"), {.tensor = ranks});
}

std::vector<PlannedParameter> params_of(const Plan& plan) {
  return plan.replacements.at(0).nodes.at(0).params;
}

// Returns the runs of each rank, "0+4 8+2x2|...", which must be the same for the weight and the bias.
std::string cut(int64_t extent, const std::string& attributes, uint32_t ranks) {
  const std::string text = canonical_text(plan_of(extent, attributes, ranks));
  const size_t begin = text.find("->(dim 0 ") + 9, end = text.find(')', begin);
  const std::string weight = text.substr(begin, end - begin);
  EXPECT_TELLS(text, fmt::format("bias({})->(dim 0 {})", extent, weight));
  return weight;
}

std::string refusal_of_cut(int64_t extent, const std::string& attributes, uint32_t ranks,
                           const char* kind = "Linear") {
  return refusal_of([&] { plan_of(extent, attributes, ranks, kind); });
}

constexpr const char* kGrouped = R"("fused": 3, "heads": 8, "key_heads": 2)";
constexpr const char* kMultiQuery = R"("fused": 3, "heads": 4, "key_heads": 1)";
constexpr const char* kInterleaved = R"("fused": 3, "heads": 8, "key_heads": 2, "interleaved": true)";
constexpr const char* kByHead = R"("fused": 3, "heads": 4, "interleaved": true)";

TEST(Cut, TakesFeaturesAsTheyLie) {
  EXPECT_EQ(cut(8, "", 4), "0+2|2+2|4+2|6+2");
  EXPECT_EQ(cut(12, R"("heads": 2)", 2), "0+6|6+6");
  EXPECT_EQ(cut(12, R"("heads": 2)", 4), "0+6x2|0+6x2|6+6x2|6+6x2");
}

TEST(Cut, TakesItsShareOfEveryPart) {
  EXPECT_EQ(cut(12, R"("fused": 3)", 2), "0+2 4+2 8+2|2+2 6+2 10+2");
  EXPECT_EQ(cut(12, R"("fused": 2, "heads": 3)", 3), "0+2 6+2|2+2 8+2|4+2 10+2");
}

// Uses 8 heads of queries, 2 of keys and 2 of values, of 2 features each.
TEST(Cut, TakesItsShareOfPartsOfSeveralSizes) {
  EXPECT_EQ(cut(24, kGrouped, 1), "0+24");
  EXPECT_EQ(cut(24, kGrouped, 2), "0+8 16+2 20+2|8+8 18+2 22+2");
  EXPECT_EQ(cut(24, kGrouped, 4), "0+4 16+2x2 20+2x2|4+4 16+2x2 20+2x2|8+4 18+2x2 22+2x2|12+4 18+2x2 22+2x2");
  EXPECT_EQ(cut(12, kMultiQuery, 2), "0+4 8+4x2|4+4 8+4x2");
}

// Uses two groups of 4 heads of queries, one of keys and one of values.
TEST(Cut, TakesWholeGroupsOrItsShareOfOne) {
  EXPECT_EQ(cut(24, kInterleaved, 2), "0+12|12+12");
  EXPECT_EQ(cut(24, kInterleaved, 4), "0+4 8+4x2|4+4 8+4x2|12+4 20+4x2|16+4 20+4x2");
  EXPECT_EQ(cut(24, kByHead, 4), "0+6|6+6|12+6|18+6");
}

TEST(Cut, HasEveryFeatureCountedOnce) {
  for (const char* attributes : {kGrouped, kMultiQuery, kInterleaved, kByHead, R"("heads": 2)"}) {
    for (const uint32_t ranks : {1u, 2u, 4u}) {
      std::vector<int> counted(48);
      const std::vector<Cut> cuts = params_of(plan_of(48, attributes, ranks)).at(0).cuts;
      for (size_t rank = 0; rank < cuts.size(); ++rank) {
        std::vector<int64_t> rows;  // of the shard, as rows of the whole weight
        for (const weft::Run& run : cuts[rank].dims[0])
          for (int64_t i = 0; i < run.count; ++i) rows.push_back(run.begin + i);
        for (const weft::Run& run : first_held(cuts, rank))  // counts elements; a row has 5
          for (int64_t i = run.begin; i < run.end(); i += 5) ++counted[static_cast<size_t>(rows[i / 5])];
      }
      EXPECT_EQ(counted, std::vector<int>(48, 1)) << attributes << " on " << ranks;
    }
  }
}

TEST(Cut, IsRefusedWithTheNearestSizesThatCan) {
  EXPECT_TELLS(
      refusal_of_cut(24, kGrouped, 3),
      "qkv has a weight with 8 + 2 x 2 heads along dimension 0, which tensor_size 3 cannot share out; "
      "the nearest that can: 2 and 4");
  EXPECT_TELLS(refusal_of_cut(24, kGrouped, 16), "tensor_size 16 cannot share out; the nearest that can: 8");
  EXPECT_TELLS(refusal_of_cut(24, R"("heads": 2)", 3),
               "with 2 heads along dimension 0, which tensor_size 3 cannot "
               "share out; the nearest that can: 2 and 4");
  EXPECT_TELLS(refusal_of_cut(24, kByHead, 3), "with 3 x 4 heads along dimension 0");
  EXPECT_TELLS(refusal_of_cut(25, kGrouped, 2),
               "with 25 elements along dimension 0, which are not 8 + 2 x 2 heads "
               "of one size");
  EXPECT_TELLS(refusal_of_cut(2, R"("fused": 4000000000000)", 2), "which are not 4000000000000 equal parts");
}

// Along the second dimension, one rank would count a part of each row and another rank the rest.
TEST(Cut, RepeatsSomePartsAlongTheFirstDimensionOnly) {
  EXPECT_EQ(params_of(plan_of(24, kGrouped, 2, "Conv1D")).at(0).cuts.at(0).local(),
            (std::vector<int64_t>{5, 12}));
  EXPECT_TELLS(refusal_of_cut(24, kGrouped, 4, "Conv1D"),
               "along dimension 1, which tensor_size 4 cannot share out; the nearest that can: 2");
}

TEST(Cut, RefusesAttributesThatDoNotGoTogether) {
  for (const char* attributes :
       {R"("key_heads": 2)", R"("heads": 8, "key_heads": 2)", R"("fused": 3, "key_heads": 2)",
        R"("fused": 3, "heads": 8, "key_heads": 3)"})
    EXPECT_TELLS(refusal_of_cut(24, attributes, 2), "qkv cannot have key_heads = ");
  for (const char* attributes : {R"("interleaved": true)", R"("fused": 3, "interleaved": true)"})
    EXPECT_TELLS(refusal_of_cut(24, attributes, 2), "qkv cannot have interleaved = true");
}

TEST(Explain, TellsHowPartsAreCut) {
  EXPECT_TELLS(
      explain(plan_of(24, kInterleaved, 4)),
      "\ncut         qkv  dimension 0: 0..3 8..11 (2 ranks) | 4..7 8..11 (2 ranks) | 12..15 20..23 (2 "
      "ranks) | 16..19 20..23 (2 ranks)\n");
  EXPECT_EQ(explain(plan_of(8, "", 2)).find("\ncut "), std::string::npos);
}

}  // namespace
}  // namespace weft::plan::test

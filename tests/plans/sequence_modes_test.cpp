// The sequence modes: what policies and users know of them. plan/traffic_test.cpp counts their bytes.
#include "sequence_modes/sequence_mode.hpp"

#include <gtest/gtest.h>
#include <weft/policy.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <weft/error.hpp>

#include "plans/plan/invented_policy.hpp"

namespace weft::plan::test {
namespace {

using Axis = SequenceMode::Axis;

TEST(SequenceModes, RefuseANameThatTheyDoNotHave) {
  EXPECT_EQ(find_sequence_mode("rings"), nullptr);
  EXPECT_THROW(sequence_mode_of({.sequence_mode = "rings"}), Error);
  EXPECT_EQ(sequence_mode_of({}).name, "whole");
}

TEST(SequenceModes, AreTheChoicesOfTheOption) {
  std::ifstream file(WEFT_OPTION_GROUPS);
  std::vector<std::string> choices, names;
  for (const auto& group : nlohmann::json::parse(file))
    for (const auto& option : group.at("options"))
      if (option.value("name", "") == "sequence_parallelism_mode")
        choices = option.at("choices").get<std::vector<std::string>>();
  for (const SequenceMode& mode : sequence_modes())
    if (mode.axis != Axis::kNone) names.emplace_back(mode.name);
  EXPECT_EQ(names, choices);
}

TEST(SequenceModes, TellPoliciesTheirAxisAndWhoDividesTheHeads) {
  for (const SequenceMode& mode : sequence_modes()) {
    const bool over_sequence = mode.axis == Axis::kSequence;
    const bool divides_heads = mode.attention.collective == Collective::kAllToAll;
    const auto asks = [&](const Call& call) {
      const weft_parallel* const parallel = call.parallel;
      EXPECT_EQ(WEFT_SPLIT_OVER_TENSOR_AXIS, mode.axis == Axis::kTensor) << mode.name;
      EXPECT_EQ(WEFT_SPLIT_OVER_SEQUENCE_AXIS, over_sequence) << mode.name;
      EXPECT_EQ(WEFT_HEAD_RANKS, divides_heads ? 6 : 2) << mode.name;
      EXPECT_EQ(view(parallel->sequence_mode), mode.axis == Axis::kNone ? "" : mode.name);
    };
    const ModelDescription model = {"Small", "{}", {node("a", "Dropout")}, {}};
    build_plan(model, policy(asks),
               {.tensor = 2, .sequence = over_sequence ? 3u : 1u, .sequence_mode = mode.name});
  }
}

TEST(SequenceModes, OverASequenceAxisSayWhatAttentionSends) {
  for (const SequenceMode& mode : sequence_modes()) {
    const AttentionTraffic& attention = mode.attention;
    const bool sends = mode.axis == Axis::kSequence;
    EXPECT_EQ(attention.width != nullptr && attention.bytes != nullptr && attention.key_heads != nullptr,
              sends)
        << mode.name;
    EXPECT_EQ(*attention.documentation != 0, sends) << mode.name;
  }
}

}  // namespace
}  // namespace weft::plan::test

// The policy that the families of rotary decoders share, on models with norms of heads.
#include "apply/describe_model.hpp"
#include "plans/plan/invented_policy.hpp"
#include "policies/compiled_policy.hpp"
#include "qwen3_model.hpp"

namespace weft::plan::test {
namespace {

Policy policy() {
  return compiled_policy("qwen3");
}

// `heads` of keys; an empty text leaves the key out.
ModelDescription describe(const std::string& heads) {
  static std::vector<std::shared_ptr<nn::Model>> models;  // descriptions point into them
  const std::string json =
      R"({"vocab_size": 101, "hidden_size": 24, "intermediate_size": 32, "head_dim": 6, "num_hidden_layers": 2,
          "num_attention_heads": 32)" +
      (heads.empty() ? "" : R"(, "num_key_value_heads": )" + heads) + "}";
  models.push_back(qwen3::make_model(Config::parse(json, "test"), "Qwen3ForCausalLM", at::kFloat));
  return describe_model(*models.back());
}

TEST(Qwen3Policy, SumsTheGradientsOfTheNormsOfHeads) {
  const Plan plan = build_plan(describe("8"), policy(), {.tensor = 4});
  size_t found = 0;
  for (const Replacement& entry : plan.replacements)
    for (const PlannedNode& node : entry.nodes)
      if (node.path.ends_with("q_norm") || node.path.ends_with("k_norm")) {
        ++found;
        EXPECT_TRUE(node.params[0].cuts.empty());
        for (const Attribute& attribute : entry.attributes)
          if (attribute.key == "split") EXPECT_EQ(attribute.integer, 1);
      }
  EXPECT_EQ(found, 4u);
}

// Also where config.json leaves the number out (32), or has null (that of the queries).
TEST(Qwen3Policy, TakesTheHeadsOfKeysFromTheModel) {
  for (const auto& [heads, expected] :
       {std::pair{"8", 2}, std::pair{"2", 1}, std::pair{"", 8}, std::pair{"null", 8}}) {
    const Plan plan = build_plan(describe(heads), policy(), {.tensor = 4});
    ASSERT_EQ(plan.divisions.size(), 2u);
    EXPECT_EQ(plan.divisions[1].nodes.at(0).after, expected) << heads;
  }
}

}  // namespace
}  // namespace weft::plan::test

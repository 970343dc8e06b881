// What the host changes in the layers of a plan: the forms that the user's options and the entries choose.
#include "transformations/transformation.hpp"

#include "plan/gpt2_policy.hpp"
#include "plan/invented_policy.hpp"
#include "plan/json_policy.hpp"

namespace weft::plan::test {
namespace {

const ModelDescription kModel = Gpt2{.layers = 1}.describe();
constexpr ParallelSizes kPlain = {.fused_normalization = false, .flash_attention = false, .jit_fused = false};

// Returns one line for each transformed layer.
std::vector<std::string> transformed(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Transformed& made : plan.transformed)
    for (const std::string& path : made.paths)
      lines.push_back(fmt::format("{} {}: {}", made.transformation, path, made.reason));
  return lines;
}

TEST(Transformations, RefuseAnOptionForLayersThatTheModelDoesNotHave) {
  const ModelDescription bare = {"Bare", "{}", {node("embed", "Embedding", {{"weight", {8, 4}}})}, {}};
  EXPECT_TRUE(unsupported(empty_plan(bare, {})).empty());
  EXPECT_EQ(unsupported(empty_plan(bare, kPlain)),
            (std::vector<std::string>{
                "enable_fused_normalization is false, but Bare has no norm; leave it true",
                "enable_flash_attention is false, but Bare has no attention; leave it true",
                "enable_jit_fused is false, but Bare has no activation or dropout; leave it true"}));
  EXPECT_TRUE(unsupported(empty_plan(kModel, kPlain)).empty());
}

// A policy that says nothing about forms, one that asks for the fused form, and a model without a policy.
TEST(Transformations, GiveTheFormOfAnOptionToEveryLayerOfItsKinds) {
  const std::vector<std::string> expected = {
      "plain_normalization h.0.ln_1: enable_fused_normalization is false",
      "plain_normalization h.0.ln_2: enable_fused_normalization is false",
      "plain_normalization ln_f: enable_fused_normalization is false",
      "plain_attention h.0.attn: enable_flash_attention is false",
      "plain_elementwise drop: enable_jit_fused is false",
      "plain_elementwise h.0.attn.resid_dropout: enable_jit_fused is false",
      "plain_elementwise h.0.mlp.act: enable_jit_fused is false",
      "plain_elementwise h.0.mlp.dropout: enable_jit_fused is false"};
  const auto fused = policy([](const Call& c) {
    c.on("ln_f", "weft.layer_norm/1", {flag("fused", true)});
    c.on("h.*.attn", "weft.attention/1", {flag("flash", true)});
    c.on("h.*.mlp.act", "weft.activation/1", {flag("fused", true)});
  });
  EXPECT_EQ(transformed(build_plan(kModel, gpt2_policy(), kPlain)), expected);
  EXPECT_EQ(transformed(build_plan(kModel, fused, kPlain)), expected);
  EXPECT_EQ(transformed(empty_plan(kModel, kPlain)), expected);
  EXPECT_TRUE(build_plan(kModel, fused, {}).transformed.empty());
}

TEST(Transformations, GiveThePlainFormToALayerWhoseEntryForbidsTheFusedOne) {
  const auto forbidding = policy([](const Call& c) {
    c.on("ln_f", "weft.layer_norm/1", {flag("fused", false)});
    c.on("h.*.attn", "weft.cross_attention/1", {flag("flash", false)});
    c.on("h.*.mlp.dropout", "weft.dropout/1", {flag("fused", false)});
  });
  const std::vector<std::string> expected = {
      "plain_normalization ln_f: the policy forbids the fused form",
      "plain_attention h.0.attn: the policy forbids the fused form",
      "plain_elementwise h.0.mlp.dropout: the policy forbids the fused form"};
  EXPECT_EQ(transformed(build_plan(kModel, forbidding, {})), expected);
  const Policy json = parse_json_policy(R"({"name": "invented", "entries": [
      {"on": "ln_f", "operation": "weft.layer_norm/1", "fused": false},
      {"on": "h.*.attn", "operation": "weft.cross_attention/1", "flash": false},
      {"on": "h.*.mlp.dropout", "operation": "weft.dropout/1", "fused": false}]})",
                                        "p.json");
  EXPECT_EQ(transformed(build_plan(kModel, json, {})), expected);
  EXPECT_TRUE(unsupported(build_plan(kModel, json, {})).empty());
}

TEST(Transformations, StandInThePlanAndItsDigest) {
  const Plan fused = build_plan(kModel, gpt2_policy(), {}),
             plain = build_plan(kModel, gpt2_policy(), {.flash_attention = false});
  EXPECT_EQ(explain(fused).find("transform "), std::string::npos);
  EXPECT_TELLS(explain(plain), "transform   plain_attention  1: h.0.attn  enable_flash_attention is false\n");
  EXPECT_TELLS(canonical_text(plain), "transform h.0.attn plain_attention\n");
  EXPECT_NE(plain.digest, fused.digest);
}

}  // namespace
}  // namespace weft::plan::test

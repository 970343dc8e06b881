// The flags that choose the form of layers, and what contradicts them. tests/policies has both forms of every
// family.
#include "plugins/support/parity.hpp"

#include <set>

#include "base/text.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

class Flags : public testing::TestWithParam<std::string> {};

TEST_P(Flags, ContradictAllOptimizationIfTheyAreFalse) {
  const std::string options = fmt::format(R"({{"enable_all_optimization": true, "{}": false}})", GetParam());
  const JobOptions gemini = {.strategy = "gemini", .options = options};
  EXPECT_ERROR(boost(one_rank(), tiny_gpt2(), gemini), WEFT_INVALID_ARGUMENT,
               "enable_all_optimization is true, but " + GetParam() + " is false");
}

INSTANTIATE_TEST_SUITE_P(HybridParallel, Flags,
                         testing::Values("enable_fused_normalization", "enable_jit_fused"),
                         [](const auto& info) { return info.param; });

// Returns the paths of the layers that run in their plain form.
std::set<std::string> plain_layers(const nn::Model& model) {
  std::set<std::string> plain;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const auto layer = std::dynamic_pointer_cast<nn::Fusible>(item.value());
    const auto attention = std::dynamic_pointer_cast<nn::Attention>(item.value());
    if ((layer && !layer->fused) || (attention && !attention->fused)) plain.insert(item.key());
  }
  return plain;
}

using Paths = std::set<std::string>;

Paths plain_layers_of(const Model& model, const std::string& options) {
  return plain_layers(
      boost(one_rank(), model, {.strategy = "hybrid_parallel", .options = options}).model.module());
}

TEST(Forms, AreRefusedForLayersThatTheModelDoesNotHave) {
  EXPECT_ERROR(plain_layers_of(toy(), R"({"tp_size": 1, "enable_flash_attention": false})"),
               WEFT_UNIMPLEMENTED, "enable_flash_attention is false", "ToyModel");
}

TEST(Forms, AreChosenWithoutAPolicy) {
  EXPECT_EQ(plain_layers_of(toy(), R"({"tp_size": 1})"), Paths());
  EXPECT_EQ(plain_layers_of(toy(), R"({"tp_size": 1, "enable_fused_normalization": false})"),
            (Paths{"blocks.0.norm", "blocks.1.norm", "blocks.2.norm"}));
}

// A policy whose only entries forbid the fused form of some layers.
TEST(Forms, AreThoseOfTheOptionsAndPlainWhereThePolicyForbidsTheFusedOne) {
  const TemporaryFolder folder;
  const std::string policy = folder.file("policy.json", R"({"name": "forbidding", "entries": [
      {"on": "ln_f", "operation": "weft.layer_norm/1", "fused": false},
      {"on": "h.0.attn", "operation": "weft.attention/1", "flash": false},
      {"on": "h.1.attn", "operation": "weft.attention/1", "flash": true},
      {"on": "h.1.mlp.act", "operation": "weft.activation/1", "fused": false}]})");
  const auto with = [&](const std::string& more) {
    return plain_layers_of(tiny_gpt2(), R"({"custom_policy": ")" + policy + "\"" + more + "}");
  };
  const Paths forbidden = {"transformer.h.0.attn", "transformer.h.1.mlp.act", "transformer.ln_f"};
  EXPECT_EQ(with(""), forbidden);
  EXPECT_EQ(with(R"(, "enable_all_optimization": true)"), forbidden);
  Paths attention = forbidden;
  attention.insert("transformer.h.1.attn");
  EXPECT_EQ(with(R"(, "enable_flash_attention": false)"), attention);
}

TEST(AllOptimization, HasTheGradientsOfOneRank) {
  for (const char* strategy : {"hybrid_parallel", "torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    expect_gradients_of_one_rank(
        {.strategy = strategy, .options = R"({"tp_size": 2, "enable_all_optimization": true})"}, {2},
        {.tolerance = 5e-5, .model = [](const JobOptions& options) {
           return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4});
         }});
}

}  // namespace

}  // namespace weft::test

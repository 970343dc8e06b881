// The flags that choose the form of layers, and what contradicts them. tests/policies has both forms of every
// family.
#include "plugins/support/parity.hpp"

#include "base/text.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

class Flags : public testing::TestWithParam<std::string> {};

TEST_P(Flags, ThatAreFalseContradictAllOptimization) {
  const std::string options = fmt::format(R"({{"enable_all_optimization": true, "{}": false}})", GetParam());
  const JobOptions gemini = {.strategy = "gemini", .options = options};
  EXPECT_ERROR(boost(one_rank(), tiny_gpt2(), gemini), WEFT_INVALID_ARGUMENT,
               "enable_all_optimization is true, but " + GetParam() + " is false");
}

TEST_P(Flags, AreRefusedWhereThePolicyDoesNotPassThemOn) {
  const JobOptions options = {.strategy = "hybrid_parallel",
                              .options = fmt::format(R"({{"tp_size": 1, "{}": false}})", GetParam())};
  EXPECT_ERROR(boost(one_rank(), toy(), options), WEFT_UNIMPLEMENTED, GetParam() + " is false");
}

INSTANTIATE_TEST_SUITE_P(HybridParallel, Flags,
                         testing::Values("enable_fused_normalization", "enable_jit_fused"),
                         [](const auto& info) { return info.param; });

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

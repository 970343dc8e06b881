// The flags that choose the form of layers: both forms have the same losses and gradients.
#include "base/text.hpp"
#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

const std::vector<std::string> kStrategies = {"hybrid_parallel", "torch_ddp", "low_level_zero", "torch_fsdp",
                                              "gemini"};
// Each flag and the kinds of layers that follow it.
const std::map<std::string, std::vector<std::string>> kFlags = {
    {"enable_fused_normalization", {"LayerNorm", "RMSNorm"}},
    {"enable_jit_fused", {"Activation", "Dropout"}}};

struct Family {
  std::string architecture, config;
};

const Family kGpt2 = {"GPT2LMHeadModel", R"({"model_type": "gpt2", "vocab_size": 23, "n_positions": 9,
    "n_embd": 24, "n_head": 4, "n_layer": 2, "resid_pdrop": 0.2, "embd_pdrop": 0.2, "attn_pdrop": 0.2,
    "initializer_range": 0.3})"};
const Family kLlama = {"LlamaForCausalLM", R"({"model_type": "llama", "vocab_size": 23, "hidden_size": 24,
    "max_position_embeddings": 9, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "mlp_bias": true, "initializer_range": 0.3})"};
const Family kQwen3 = {"Qwen3ForCausalLM", R"({"model_type": "qwen3", "vocab_size": 23, "hidden_size": 24,
    "max_position_embeddings": 9, "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 6, "initializer_range": 0.3})"};
const Family kChatGlm = {"ChatGLMForConditionalGeneration", R"({"model_type": "chatglm",
    "padded_vocab_size": 23, "seq_length": 9, "hidden_size": 24, "ffn_hidden_size": 20, "num_layers": 1,
    "num_attention_heads": 4, "kv_channels": 6, "multi_query_attention": true, "multi_query_group_num": 2,
    "rmsnorm": false, "hidden_dropout": 0.2, "attention_dropout": 0.2})"};
constexpr const char* kT5 = R"({{"model_type": "t5", "vocab_size": 23, "d_model": 24, "d_kv": 6, "d_ff": 16,
    "num_heads": 4, "num_layers": 2, "relative_attention_num_buckets": 8, "dropout_rate": 0.2,
    "relative_attention_max_distance": 12, "decoder_start_token_id": 0, "feed_forward_proj": "{}"}})";

std::vector<Family> families() {
  const std::string generation = "T5ForConditionalGeneration";
  return {kGpt2,
          kLlama,
          kQwen3,
          kChatGlm,
          {generation, fmt::format(kT5, "relu")},
          {generation, fmt::format(kT5, "gated-gelu")}};
}

Model open(const Family& family, const std::string& precision) {
  const TemporaryFolder folder;
  folder.file("config.json", family.config);
  return Model::open(folder.path() + "/config.json", family.architecture, precision);
}

JobOptions with_flag(const std::string& flag, bool value, int ranks, const std::string& precision) {
  return {.strategy = "hybrid_parallel",
          .options = fmt::format(R"({{"tp_size": {}, "{}": {}}})", ranks, flag, value),
          .precision = precision};
}

struct Outcome {
  double loss;
  Tensors gradients;
};

// In training, with the masks of one seed.
Outcome outcome(const World& world, const Family& family, const JobOptions& options) {
  Job job = boost(world, open(family, options.precision), options);
  const double loss = job.accumulate_gradients(own_part(gpt2_batch(3, 1), job));
  return {loss, published_gradients(job)};
}

class Flags : public testing::TestWithParam<std::string> {};

TEST_P(Flags, BothFormsHaveTheSameLossAndGradients) {
  for (const Family& family : families())
    for (const std::string precision : {"fp32", "fp64"})
      on_ranks({1, 2}, [&](World& world) {
        const double tolerance = precision == "fp32" ? kGradientFp32 : kGradientFp64;
        SCOPED_TRACE(family.architecture + " " + precision);
        const auto form = [&](bool fused) {
          return outcome(world, family, with_flag(GetParam(), fused, world.size(), precision));
        };
        const Outcome fused = form(true), plain = form(false);
        EXPECT_NEAR(fused.loss, plain.loss, tolerance * plain.loss);
        expect_near(fused.gradients, plain.gradients, tolerance);
      });
}

TEST_P(Flags, ChooseTheFormOfTheirLayersUnderEveryStrategy) {
  for (const std::string& strategy : kStrategies)
    on_ranks({1, 2}, [&](World& world) {
      for (const bool value : {false, true}) {
        JobOptions options = with_flag(GetParam(), value, world.size(), "fp32");
        options.strategy = strategy;
        for (const Family& family : families()) {
          const Job job = boost(world, open(family, "fp32"), options);
          const std::vector<std::string>& kinds = kFlags.at(GetParam());
          size_t chosen = 0;
          for (const auto& item : job.model.module().named_modules()) {
            const auto layer = std::dynamic_pointer_cast<nn::Fusible>(item.value());
            if (!layer) continue;
            const bool follows = std::count(kinds.begin(), kinds.end(), layer->kind()) > 0;
            EXPECT_EQ(layer->fused, value || !follows) << item.key();
            chosen += follows;
          }
          EXPECT_GT(chosen, 0u) << family.architecture;
        }
      }
    });
}

TEST_P(Flags, ThatAreFalseContradictAllOptimization) {
  const std::string options = fmt::format(R"({{"enable_all_optimization": true, "{}": false}})", GetParam());
  const JobOptions gemini = {.strategy = "gemini", .options = options};
  EXPECT_ERROR(boost(one_rank(), open(kLlama, "fp32"), gemini), WEFT_INVALID_ARGUMENT,
               "enable_all_optimization is true, but " + GetParam() + " is false");
}

TEST_P(Flags, AreRefusedWhereThePolicyDoesNotPassThemOn) {
  JobOptions options = with_flag(GetParam(), false, 1, "fp32");
  EXPECT_ERROR(boost(one_rank(), toy(), options), WEFT_UNIMPLEMENTED, GetParam() + " is false");
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& [name, kinds] : kFlags) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(HybridParallel, Flags, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(AllOptimization, HasTheGradientsOfOneRank) {
  for (const std::string& strategy : kStrategies)
    expect_gradients_of_one_rank(
        {.strategy = strategy, .options = R"({"tp_size": 2, "enable_all_optimization": true})"}, {2},
        {.tolerance = 5e-5, .model = [](const JobOptions& options) {
           return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4});
         }});
}

}  // namespace

}  // namespace weft::test

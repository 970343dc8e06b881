// Llama on a tensor axis: grouped queries, and heads of keys that are fewer than ranks.
#include "base/text.hpp"
#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

struct TinyLlama {
  std::string architecture;
  int64_t key_heads;
  bool tied;
};

// 23 tokens and 3 labels: no number of ranks divides them. Biases of keys in fp64 only: what rounding adds to
// their small gradients is too much of them.
Model tiny_llama(const TinyLlama& llama, const std::string& precision) {
  const TemporaryFolder folder;
  folder.file("config.json",
              fmt::format(R"({{"model_type": "llama", "vocab_size": 23, "max_position_embeddings": 9,
      "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": {}, "head_dim": 16, "mlp_bias": true, "attention_bias": {},
      "tie_word_embeddings": {}, "pad_token_id": 20, "num_labels": 3, "initializer_range": 0.3}})",
                          llama.key_heads, precision == "fp64", llama.tied));
  return Model::open(folder.path() + "/config.json", llama.architecture, precision);
}

// Id 20 is padding, whose row has no gradient.
Batch batch_of(const std::string& architecture, int64_t step) {
  Batch batch = gpt2_batch(6, step);
  batch.at("input_ids").narrow(1, 5, 2).fill_(20);
  if (architecture == "LlamaForSequenceClassification") batch.set("labels", at::randint(3, {6}, at::kLong));
  return batch;
}

Trial trial_of(const TinyLlama& llama, const std::string& precision) {
  return {.tolerance = precision == "fp64" ? 1e-10 : 5e-5,
          .model = [=](const JobOptions& options) { return tiny_llama(llama, options.precision); },
          .batch = [=](int64_t step) { return batch_of(llama.architecture, step); }};
}

JobOptions options_of(const std::string& strategy, const std::string& options, const std::string& precision) {
  return {.strategy = strategy, .options = options, .precision = precision};
}

class LlamaClasses : public testing::TestWithParam<std::tuple<TinyLlama, std::string>> {};

TEST_P(LlamaClasses, HaveTheGradientsOfOneRank) {
  const auto& [llama, precision] = GetParam();
  const Trial trial = trial_of(llama, precision);
  expect_gradients_of_one_rank(options_of("hybrid_parallel", R"({"tp_size": 2})", precision), {2}, trial);
  expect_gradients_of_one_rank(options_of("hybrid_parallel", R"({"tp_size": 4})", precision), {4}, trial);
}

// 7 positions: no number of ranks divides them.
TEST_P(LlamaClasses, HaveTheGradientsOfOneRankWithSplitSequences) {
  const auto& [llama, precision] = GetParam();
  for (const int size : {2, 4}) {
    JobOptions options = options_of("hybrid_parallel",
                                    fmt::format(R"({{"tp_size": {}, "enable_sequence_parallelism": true,
                                                      "sequence_parallelism_mode": "split_gather"}})",
                                                size),
                                    precision);
    expect_gradients_of_one_rank(options, {size}, trial_of(llama, precision));
    options.recompute = "all";
    expect_gradients_of_one_rank(options, {size}, trial_of(llama, precision));
  }
}

std::string name_of(const testing::TestParamInfo<LlamaClasses::ParamType>& info) {
  const auto& [llama, precision] = info.param;
  return llama.architecture + std::to_string(llama.key_heads) + "_" + precision;
}

INSTANTIATE_TEST_SUITE_P(All, LlamaClasses,
                         testing::Combine(testing::Values(TinyLlama{"LlamaForCausalLM", 4, false},
                                                          TinyLlama{"LlamaForCausalLM", 2, true},
                                                          TinyLlama{"LlamaForSequenceClassification", 1,
                                                                    false}),
                                          testing::Values("fp32", "fp64")),
                         name_of);

// q, k and v send the gradient of what they read once, and so do gate and up: as few as GPT-2's.
WEFT_RANKS_TEST(LlamaBytes, AStepSendsFourActivationsForEachBlock, 2, 4) {
  JobOptions options =
      options_of("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options);
  const Batch batch = batch_of("LlamaForCausalLM", 1);
  const int64_t labels = batch.at("labels").numel(), activation = labels * 24, layers = 2;
  const int64_t elements = (4 * layers + 2) * activation + 3 * labels;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
}

TEST(HybridParallel, LlamaTrainsUnderEveryStrategyWithATensorAxis) {
  const Trial trial = trial_of({"LlamaForCausalLM", 2, true}, "fp64");
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    expect_gradients_of_one_rank(options_of(strategy, R"({"tp_size": 2})", "fp64"), {4}, trial);
}

}  // namespace

}  // namespace weft::test

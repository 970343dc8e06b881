// What Llama sends on a tensor axis.
#include "plugins/support/bytes.hpp"
#include "base/text.hpp"
#include "policies/llama/llama_trial.hpp"

namespace weft::test {

namespace {

JobOptions options_of(const std::string& strategy, const std::string& options, const std::string& precision) {
  return {.strategy = strategy, .options = options, .precision = precision};
}

// q, k and v send the gradient of what they read once, and so do gate and up: as few as GPT-2's.
WEFT_RANKS_TEST(LlamaBytes, AStepSendsFourActivationsForEachBlock, 2, 4) {
  JobOptions options =
      options_of("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options);
  const Batch batch = with_all_labels(llama_batch("LlamaForCausalLM", 1));
  const int64_t labels = batch.at("labels").numel(), activation = labels * 24, layers = 2;
  const int64_t elements = (4 * layers + 2) * activation + 3 * labels;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
  EXPECT_EQ(layer_bytes(tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options, batch), expected);
}

// As of GPT-2: no rank keeps what q, k and v read, it is gathered again.
WEFT_RANKS_TEST(LlamaBytes, SplitSequencesSendFiveQuarters, 2, 4) {
  JobOptions options = options_of("hybrid_parallel",
                                  fmt::format(R"({{"tp_size": {}, "enable_sequence_parallelism": true,
                                                   "sequence_parallelism_mode": "split_gather"}})",
                                              world.size()),
                                  "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options);
  const at::Tensor ids = at::randint(20, {3, 8}, at::kLong);
  const Batch batch = {{"input_ids", ids}, {"labels", ids}};
  const int64_t labels = ids.numel(), layers = 2, ranks = world.size(), activation = labels * 24 * 4;
  auto sent = sent_bytes([&] { job.accumulate_gradients(batch); });
  EXPECT_EQ(sent["all_gather"], (6 * layers + 2) * activation * (ranks - 1) / ranks);
  EXPECT_EQ(sent["reduce_scatter"], (4 * layers + 1) * activation * (ranks - 1) / ranks);
  EXPECT_EQ(layer_bytes(tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options, batch), sent);
}

}  // namespace

}  // namespace weft::test

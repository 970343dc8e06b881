// Steps on a tensor axis, and what they send.
#include <cmath>

#include "base/text.hpp"
#include "files/format.hpp"
#include "plugins/support/bytes.hpp"
#include "policies/chatglm/tiny_chatglm.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

JobOptions options_of(const std::string& strategy, const std::string& options, const std::string& precision) {
  return {.strategy = strategy, .options = options, .precision = precision};
}

TEST(ChatGlmTensorParallel, TrainsAsOneRankBesideDataParallelism) {
  JobOptions options = options_of("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})", "fp32");
  options.max_grad_norm = 0.5;
  options.recompute = "all";
  expect_steps_of_one_rank(options, {4}, chatglm_trial(kTwoGroups, "fp32"));
}

// Queries, keys and values read one input, and so do gate and up: as few all-reduces as GPT-2's.
WEFT_RANKS_TEST(ChatGlmBytes, AStepSendsFourActivationsForEachBlock, 2, 4) {
  JobOptions options =
      options_of("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_chatglm(kUngrouped, "fp32"), options);
  const Batch batch = with_all_labels(gpt2_batch(6, 1));
  const int64_t labels = batch.at("labels").numel(), activation = labels * 24, layers = 2;
  const int64_t elements = (4 * layers + 2) * activation + 3 * labels;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
  EXPECT_EQ(layer_bytes(tiny_chatglm(kUngrouped, "fp32"), options, batch), expected);
}

// A program that builds the published class without initialising it, on the meta device, reads them.
WEFT_RANKS_TEST(ChatGlmFiles, HaveTheFrequenciesOfTheRotaryPositions, 1, 2) {
  const TemporaryFolder temporary;
  const std::string folder = world.communicator().broadcast_text(temporary.path() + "/model", 0);
  Booster booster(BoosterOptions{.strategy = world.size() == 1 ? "none" : "torch_ddp"}, world);
  Job job = booster.boost(tiny_chatglm(kTwoGroups, "fp32"));
  booster.save_model(job.model, folder);
  const checkpoint::Reader reader(folder);
  const auto entry = reader.find("transformer.rotary_pos_emb.inv_freq");
  ASSERT_TRUE(entry.has_value());
  const at::Tensor found = reader.read(*entry);
  ASSERT_EQ(found.numel(), 4);
  for (int64_t pair = 0; pair < 4; ++pair)
    EXPECT_NEAR(found[pair].item<double>(), std::pow(10000, -2 * static_cast<double>(pair) / 7), 1e-6);
  // They are no parameters: a strict load finds all of these, and nothing else.
  booster.load_model(job.model, folder, true);
  world.communicator().barrier();
}

}  // namespace

}  // namespace weft::test

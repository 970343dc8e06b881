// Schedules that pass states between stages while ranks split layers and sequences.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "plugins/support/sequence_modes.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

// Has nine units, so that the second stage begins in the decoder and gets the position bias, the output of
// the encoder and a mask from the first.
constexpr const char* kT5 = R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
    "vocab_size": 48, "d_model": 12, "d_kv": 5, "d_ff": 20, "num_layers": 1, "num_decoder_layers": 5,
    "num_heads": 4, "feed_forward_proj": "relu", "dropout_rate": 0.0, "pad_token_id": 0,
    "decoder_start_token_id": 0})";

Batch t5_batch(int64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  Batch batch;
  batch.set("input_ids", at::randint(2, 48, {4, 8}, generator, at::kLong));
  at::Tensor mask = at::ones({4, 8}, at::kLong);
  mask.narrow(0, 1, 2).narrow(1, 5, 3).zero_();
  batch.set("attention_mask", mask);
  batch.set("labels", at::randint(2, 48, {4, 6}, generator, at::kLong));
  return batch;
}

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 48, "n_positions": 16, "n_embd": 12, "n_layer": 4, "n_head": 4, "attn_pdrop": 0.0,
    "embd_pdrop": 0.0, "resid_pdrop": 0.0})";

Batch gpt2_batch(int64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  const at::Tensor ids = at::randint(48, {4, 8}, generator, at::kLong);
  return {{"input_ids", ids}, {"labels", ids}};
}

class Stages : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    unsetenv("WEFT_PLUGIN_PATH");
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  }
  Job boost_in(World world, const std::string& config, const std::string& strategy,
               const std::string& options) const {
    return boost(std::move(world), Model::open(config, "", "fp64"),
                 {.strategy = strategy, .options = options, .accumulate = 2, .precision = "fp64"}, "adamw");
  }
  // Trains on two ranks that run both stages, with each of the options, and compares the losses with those of
  // one rank.
  void expect_losses_of_one_rank(const char* json, Batch (*batch)(int64_t seed),
                                 const std::vector<std::string>& all_options) const {
    const std::string config = folder_.file("config.json", json);
    Job alone = boost_in(one_rank(), config, "none", "{}");
    std::vector<double> expected;
    for (const int64_t seed : {1, 2, 3}) expected.push_back(alone.train_step(batch(seed)).loss);
    on_ranks({2}, [&](World& world) {
      for (const std::string& options : all_options) {
        Job job = boost_in(world, config, "scripted", options);
        for (const int64_t seed : {1, 2, 3})
          EXPECT_NEAR(job.train_step(batch(seed)).loss, expected[static_cast<size_t>(seed) - 1], 1e-9)
              << options;
      }
    });
  }

  TemporaryFolder folder_;
};

// Every mode on two ranks.
std::vector<std::string> all_modes() {
  std::vector<std::string> options;
  for (const Split& split : kSplits)
    if (split.ranks == 2)
      options.push_back(
          in_mode(split.mode, std::string(split.axes) + R"("schedule": "two_stages", )").options);
  return options;
}

TEST_F(Stages, PassTheHeadsThatATensorParallelRankHas) {
  expect_losses_of_one_rank(kT5, t5_batch, {R"({"schedule": "two_stages", "tp_size": 2})"});
}

TEST_F(Stages, PassThePositionsThatARankHas) {
  expect_losses_of_one_rank(kGpt2, gpt2_batch, all_modes());
}

TEST_F(Stages, PassTheBiasAndTheSourceThatARankHas) {
  expect_losses_of_one_rank(kT5, t5_batch, all_modes());
}

}  // namespace

}  // namespace weft::test

// Training of an encoder of spectra and a decoder of tokens against one rank, and what it sends.
#include <ATen/ATen.h>

#include "plugins/support/bytes.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/tiny_models.hpp"
#include "policies/whisper/tiny_whisper.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

constexpr const char* kPositions = "model.encoder.embed_positions.weight";

JobOptions on_tensor_axis(int ranks, const char* precision) {
  return {.strategy = "hybrid_parallel",
          .options = fmt::format(R"({{"tp_size": {}}})", ranks),
          .precision = precision};
}

class WhisperTraining : public testing::TestWithParam<const char*> {};

TEST_P(WhisperTraining, TrainsAsOneRankWithClippingAndRecomputation) {
  JobOptions chosen = {.strategy = GetParam(), .recompute = "all", .precision = "fp32"};
  chosen.max_grad_norm = 0.5;
  expect_steps_of_one_rank(chosen, {2}, whisper_trial({}, "fp32"));
}

// Neither gradients nor weight decay move the positions of the encoder.
TEST_P(WhisperTraining, LeavesThePositionsOfTheEncoder) {
  on_ranks({2}, [](World& world) {
    const JobOptions options = {.strategy = GetParam(), .precision = "fp32"};
    Job job = boost(world, tiny_whisper({}, "fp32"), options, "adamw");
    const Tensors before = published_values(job);
    for (int64_t step = 0; step < 3; ++step) job.train_step(own_part(whisper_batch({}, 7, step), job));
    const Tensors after = published_values(job);
    EXPECT_TRUE(after.at(kPositions).equal(before.at(kPositions)));
    const char* trained = "model.decoder.embed_positions.weight";
    EXPECT_FALSE(after.at(trained).equal(before.at(trained)));
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, WhisperTraining,
                         testing::Values("torch_ddp", "low_level_zero", "torch_fsdp", "gemini"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WhisperTensorParallel, TrainsAsOneRankBesideDataParallelism) {
  JobOptions chosen = {.strategy = "hybrid_parallel",
                       .options = R"({"tp_size": 2, "zero_stage": 1})",
                       .recompute = "all",
                       .precision = "fp32"};
  chosen.max_grad_norm = 0.5;
  chosen.accumulate = 2;
  expect_steps_of_one_rank(chosen, {4}, whisper_trial({}, "fp32"));
}

TEST(WhisperSequenceAxis, GivesTheOutputsOfOneRank) {
  const Batch batch = whisper_batch({}, 4, 1);
  Job whole = boost(one_rank(), tiny_whisper({}, "fp32"), {});
  const State expected = whole.forward(batch);
  const double loss = whole.evaluate(batch).loss();
  on_ranks({2}, [&](World& world) {
    for (const Split& split : {kSplits[0], kSplits[4], kSplits[7]}) {
      const JobOptions options = laid_out(split, "fp32");
      Job job = boost(world, tiny_whisper({}, "fp32"), options);
      const char* encoded = "encoder_last_hidden_state";
      EXPECT_TRUE(is_near(job.forward(batch).at(encoded), expected.at(encoded), 1e-5)) << split.mode;
      EXPECT_NEAR(job.evaluate(batch).loss(), loss, 1e-5) << split.mode;
    }
  });
}

TEST(WhisperSequenceAxis, TrainsWithDropoutAndSpecAugment) {
  on_ranks({2}, [](World& world) {
    for (const Split& split : {kSplits[0], kSplits[4], kSplits[7]}) {
      const TinyWhisper dropping = {.keys = kAugmented, .dropout = 0.1};
      Job job = boost(world, tiny_whisper(dropping, "fp32"), laid_out(split, "fp32"), "adamw");
      double before = 0, after = 0;
      for (int64_t step = 0; step < 30; ++step) {
        after = job.train_step(whisper_batch(dropping, 3, 1)).loss;
        if (step == 0) before = after;
      }
      EXPECT_LT(after, before) << split.mode;
    }
  });
}

// SpecAugment is for training.
TEST(WhisperSpecAugment, LeavesEvaluationAlone) {
  const TinyWhisper augmented = {.keys = kAugmented};
  const Batch batch = whisper_batch({}, 4, 1);
  Job plain = boost(one_rank(), tiny_whisper({}, "fp64"), {.precision = "fp64"}),
      job = boost(one_rank(), tiny_whisper(augmented, "fp64"), {.precision = "fp64"});
  const double loss = plain.evaluate(batch).loss();
  EXPECT_EQ(job.evaluate(batch).loss(), loss);
  EXPECT_NEAR(plain.accumulate_gradients(batch), loss, 1e-12);
  EXPECT_GT(std::abs(job.accumulate_gradients(batch) - loss), 1e-6);
}

// All-reduces: an encoder block has two activations in forward and two in backward, a decoder block three and
// three; the embedding of the decoder has one, the gradient of the encoder's output one for any number of
// blocks that read it, and the gradient of the head's input one; each label has three numbers. Convolutions
// have none.
WEFT_RANKS_TEST(WhisperTensorParallel, AStepSendsWhatItsBlocksSplit, 2, 4) {
  for (const char* keys : {kTiedWhisper, kUntiedWhisper}) {
    const TinyWhisper whisper = {.keys = keys};
    const JobOptions options = on_tensor_axis(world.size(), "fp32");
    Job job = boost(world, tiny_whisper(whisper, "fp32"), options);
    const Batch batch = with_all_labels(whisper_batch(whisper, 3, 1));
    const int64_t source = 3 * 5 * 16, target = 3 * 7 * 16, labels = 3 * 7, blocks = 2;
    const int64_t elements = (1 + 4 * blocks) * source + (2 + 6 * blocks) * target + 3 * labels;
    const std::map<std::string, int64_t> expected = {
        {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
    EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected) << keys;
    EXPECT_EQ(layer_bytes(tiny_whisper(whisper, "fp32"), options, batch), expected) << keys;
  }
}

}  // namespace

}  // namespace weft::test

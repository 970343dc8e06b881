// Training of an encoder and a decoder against one rank: three modules share an embedding, all blocks of a
// stack use the position bias of the first one, and every block of the decoder reads the encoder's output.
#include "plugins/support/bytes.hpp"
#include "policies/t5/tiny_t5.hpp"

namespace weft::test {

namespace {

class T5Training : public testing::TestWithParam<const char*> {};

TEST_P(T5Training, TrainsAsOneRankWithClippingAndRecomputation) {
  JobOptions chosen = under(GetParam(), "{}", "fp32");
  chosen.max_grad_norm = 0.5;
  chosen.recompute = "all";
  expect_steps_of_one_rank(chosen, {2}, t5_trial(kGeneration, kTied));
}

// In fp16 each block has a parameter in fp32.
TEST_P(T5Training, HasTheGradientsOfOneRankInFp16) {
  // The scale with which low_level_zero begins overflows.
  const bool is_zero = std::string_view(GetParam()) == "low_level_zero";
  expect_half_gradients_of_one_rank(under(GetParam(), is_zero ? R"({"initial_scale": 256})" : "{}", "fp16"),
                                    0.02, {2}, t5_trial(kGeneration, kTied));
}

INSTANTIATE_TEST_SUITE_P(Strategies, T5Training,
                         testing::Values("torch_ddp", "low_level_zero", "torch_fsdp", "gemini"),
                         [](const auto& info) { return std::string(info.param); });

// All-reduces: an encoder block has two activations in forward and two in backward, a decoder block three and
// three; the embedding of each stack has one, the gradient of the encoder's output one for any number of
// blocks that read it, and the gradient of the head's input one; each label has three numbers.
WEFT_RANKS_TEST(T5TensorParallel, AStepSendsWhatItsBlocksSplit, 2, 4) {
  const JobOptions options =
      under("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  for (const auto& [keys, decoder_blocks] :
       {std::pair(kTied, 2), std::pair(R"("num_decoder_layers": 3, "feed_forward_proj": "gated-gelu")", 3)}) {
    Job job = boost(world, tiny_t5(options, kGeneration, keys), options);
    const Batch batch = with_all_labels(t5_batch(kGeneration, 3, 1));
    const int64_t source = 3 * 9 * 12, target = 3 * 5 * 12, labels = 3 * 5;
    const int64_t elements = (2 + 4 * 2) * source + (2 + 6 * decoder_blocks) * target + 3 * labels;
    const std::map<std::string, int64_t> expected = {
        {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
    EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected) << keys;
    EXPECT_EQ(layer_bytes(tiny_t5(options, kGeneration, keys), options, batch), expected) << keys;
  }
}

TEST(T5TensorParallel, TrainsAsOneRankBesideDataParallelism) {
  JobOptions chosen = under("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})", "fp32");
  chosen.max_grad_norm = 0.5;
  chosen.recompute = "all";
  expect_steps_of_one_rank(chosen, {4}, t5_trial(kGeneration, kTied, 5e-5));
}

}  // namespace

}  // namespace weft::test

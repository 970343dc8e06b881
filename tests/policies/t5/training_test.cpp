// An encoder and a decoder in training against one rank: an embedding that three modules share, a bias that
// one unit makes and all later ones of its stack use, an encoder's output that every block of the decoder
// reads.
#include <fmt/format.h>

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

constexpr const char* kGeneration = "T5ForConditionalGeneration";
constexpr const char* kTied = R"("feed_forward_proj": "relu")";
constexpr const char* kUntied = R"("feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)";

Model tiny_t5(const JobOptions& options, const char* architecture, const char* keys) {
  const TemporaryFolder folder;
  folder.file("config.json", fmt::format(R"({{"model_type": "t5", "vocab_size": 23, "d_model": 12, "d_kv": 5,
      "d_ff": 16, "num_heads": 4, "num_layers": 2, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 12, "dropout_rate": 0.0, "decoder_start_token_id": 0,
      "num_labels": 3, {}}})",
                                         keys));
  return Model::open(folder.path() + "/config.json", architecture, options.precision);
}

// Padding and labels that do not count are many in some samples, so that ranks differ.
Batch batch_of(std::string_view architecture, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  const bool generates = architecture == kGeneration;
  Batch batch = {{"input_ids", at::randint(23, {samples, 9}, at::kLong)},
                 {"attention_mask", at::ones({samples, 9}, at::kLong)},
                 {"labels", at::randint(generates ? 23 : 3, {samples, generates ? 5 : 9}, at::kLong)}};
  batch.at("attention_mask").narrow(0, 0, samples / 2).narrow(1, 6, 3).zero_();
  batch.at("labels").narrow(0, samples / 2, samples - samples / 2).narrow(1, 2, 3).fill_(-100);
  return batch;
}

Trial trial(const char* architecture, const char* keys, double tolerance = 0) {
  return {.tolerance = tolerance,
          .model = [=](const JobOptions& options) { return tiny_t5(options, architecture, keys); },
          .batch = [=](int64_t step) { return batch_of(architecture, 7, step); }};
}

JobOptions under(const std::string& strategy, const std::string& options, const std::string& precision) {
  JobOptions chosen;
  chosen.strategy = strategy;
  chosen.options = options;
  chosen.precision = precision;
  return chosen;
}

class T5Training : public testing::TestWithParam<const char*> {};

TEST_P(T5Training, HasTheGradientsOfOneRank) {
  for (const char* keys : {kTied, kUntied})
    expect_gradients_of_one_rank(under(GetParam(), "{}", "fp64"), {2, 3}, trial(kGeneration, keys));
}

TEST_P(T5Training, TrainsAsOneRankWithClippingAndRecomputation) {
  JobOptions chosen = under(GetParam(), "{}", "fp32");
  chosen.max_grad_norm = 0.5;
  chosen.recompute = "all";
  expect_steps_of_one_rank(chosen, {2}, trial(kGeneration, kTied));
}

INSTANTIATE_TEST_SUITE_P(Strategies, T5Training,
                         testing::Values("torch_ddp", "low_level_zero", "torch_fsdp", "gemini"),
                         [](const auto& info) { return std::string(info.param); });

TEST(T5TensorParallel, HasTheGradientsOfOneRank) {
  for (const auto& [precision, tolerance] : {std::pair("fp32", 5e-5), std::pair("fp64", 1e-10)}) {
    for (const int ranks : {2, 4}) {
      const JobOptions options =
          under("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", ranks), precision);
      for (const char* keys : {kTied, kUntied}) {
        expect_gradients_of_one_rank(options, {ranks}, trial(kGeneration, keys, tolerance));
        expect_gradients_of_one_rank(options, {ranks}, trial("T5ForTokenClassification", keys, tolerance));
      }
    }
  }
}

// Of an encoder block two activations forward and two backward, of a decoder block three and three; one for
// the embedding of each stack, one for the gradient of the encoder's output whatever the number of blocks
// that read it, one for that of the head's input; three numbers for each label.
WEFT_RANKS_TEST(T5TensorParallel, AStepSendsWhatItsBlocksSplit, 2, 4) {
  const JobOptions options =
      under("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  for (const auto& [keys, decoder_blocks] :
       {std::pair(kTied, 2), std::pair(R"("num_decoder_layers": 3, "feed_forward_proj": "gated-gelu")", 3)}) {
    Job job = boost(world, tiny_t5(options, kGeneration, keys), options);
    const Batch batch = batch_of(kGeneration, 3, 1);
    const int64_t source = 3 * 9 * 12, target = 3 * 5 * 12, labels = 3 * 5;
    const int64_t elements = (2 + 4 * 2) * source + (2 + 6 * decoder_blocks) * target + 3 * labels;
    const std::map<std::string, int64_t> expected = {
        {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
    EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected) << keys;
  }
}

TEST(T5TensorParallel, TrainsAsOneRankBesideDataParallelism) {
  JobOptions chosen = under("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})", "fp32");
  chosen.max_grad_norm = 0.5;
  chosen.recompute = "all";
  expect_steps_of_one_rank(chosen, {4}, trial(kGeneration, kTied, 5e-5));
}

// Outputs are outside of what is split: a gradient that enters there counts once.
TEST(T5TensorParallel, HasTheGradientsOfOneRankUnderACriterionOfAllOutputs) {
  const Criterion criterion = [](const State& outputs, const Batch&) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const auto& [name, hidden] : outputs)
      sum = sum + (hidden * at::linspace(-1, 1, hidden.size(2), hidden.options())).mean();
    return sum;
  };
  const auto gradients = [&](const World& world, const char* architecture, const JobOptions& options) {
    Model model = tiny_t5(options, architecture, kTied);
    BoosterOptions chosen;
    chosen.strategy = options.strategy;
    chosen.options = options.options;
    chosen.precision = options.precision;
    Job job = Booster(chosen, world).boost(model, optim::SGD(model.parameters(), {.lr = 1}), criterion);
    Batch batch = batch_of(kGeneration, 4, 2);
    if (std::string_view(architecture) == "T5Model")
      batch.set("decoder_input_ids", batch.at("labels").clamp_min(0));
    batch.erase("labels");
    job.accumulate_gradients(batch);
    return published_gradients(job);
  };
  for (const char* architecture : {"T5Model", "T5EncoderModel"}) {
    const Tensors expected = gradients(one_rank(), architecture, under("none", "{}", "fp64"));
    for (const int ranks : {2, 4})
      on_ranks({ranks}, [&](World& world) {
        const std::string options = fmt::format(R"({{"tp_size": {}}})", ranks);
        expect_near(gradients(world, architecture, under("hybrid_parallel", options, "fp64")), expected,
                    1e-10);
      });
  }
}

}  // namespace

}  // namespace weft::test

// What a tensor axis sends and what it leaves to a rank, by the formulas of sdk/docs/tensor_parallel.md.
#include "plugins/support/bytes.hpp"
#include "opening/model_state.hpp"
#include "plugins/support/parity.hpp"

namespace weft::test {

namespace {

constexpr int64_t kWidth = 32, kLayers = 2, kVocabulary = 23, kPositions = 9;

Model model() {
  return tiny_gpt2(TinyGpt2{.width = kWidth, .heads = 4});
}

JobOptions hybrid(int ranks, const std::string& more = "") {
  return {.strategy = "hybrid_parallel",
          .options = "{\"tp_size\": " + std::to_string(ranks) + more + "}",
          .recompute = "off"};
}

// Two all-reduces of the activation for each block forward and two backward, one for the embedding and one
// for the gradient of the head's input; of the loss three numbers for each label. The last two are of the
// positions of which logits are computed: of all, or of those whose label counts.
WEFT_RANKS_TEST(TensorBytes, AStepSendsFourActivationsForEachBlock, 2, 4) {
  const JobOptions options = hybrid(world.size());
  Job job = boost(world, model(), options);
  const at::Tensor ids = at::randint(kVocabulary, {3, 7}, at::kLong);
  const auto bytes = [&](int64_t rows) {
    const int64_t activation = ids.numel() * kWidth;
    const int64_t elements = (4 * kLayers + 1) * activation + rows * (kWidth + 3);
    return std::map<std::string, int64_t>{
        {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
  };
  const Batch batch = {{"input_ids", ids}, {"labels", ids}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), bytes(ids.numel()));
  EXPECT_EQ(layer_bytes(model(), options, batch), bytes(ids.numel()));
  // The label of the first position is predicted nowhere.
  const at::Tensor labels = at::full_like(ids, -100);
  labels.narrow(1, 0, 4).copy_(ids.narrow(1, 0, 4));
  const Batch few = {{"input_ids", ids}, {"labels", labels}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(few); }), bytes(3 * 3));
}

// Of each block forward two gathers and two scatters, backward four gathers (two of them once more of what
// no rank keeps) and two scatters: ten halves of an all-reduce to the eight above. Besides, weights that see
// a rank's own positions are summed.
WEFT_RANKS_TEST(TensorBytes, SplitSequencesSendFiveQuarters, 2, 4) {
  const JobOptions options = hybrid(world.size(), R"(, "enable_sequence_parallelism": true,
                                          "sequence_parallelism_mode": "split_gather")");
  Job job = boost(world, model(), options);
  const at::Tensor ids = at::randint(kVocabulary, {3, 8}, at::kLong);
  const Batch batch = {{"input_ids", ids}, {"labels", ids}};
  const int64_t labels = ids.numel(), activation = labels * kWidth * 4, ranks = world.size();
  const int64_t whole = labels * kWidth + 3 * labels + kLayers * 6 * kWidth + kPositions * kWidth;
  const std::map<std::string, int64_t> expected = {
      {"all_gather", (6 * kLayers + 2) * activation * (ranks - 1) / ranks},
      {"reduce_scatter", (4 * kLayers + 1) * activation * (ranks - 1) / ranks},
      {"all_reduce", whole * 4 * 2 * (ranks - 1) / ranks}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
  EXPECT_EQ(layer_bytes(model(), options, batch), expected);
}

// The matrices and the vocabulary are divided; positions, norms and the biases of row layers are not.
WEFT_RANKS_TEST(TensorBytes, ARankHoldsItsPartOfWhatIsSplit, 2, 4) {
  Job job = boost(world, model(), hybrid(world.size()));
  const int64_t ranks = world.size(), rows = (kVocabulary + ranks - 1) / ranks;
  const int64_t own_rows = std::min(rows, kVocabulary - rows * world.rank());
  const int64_t matrices = 12 * kWidth * kWidth, column_biases = 7 * kWidth, others = 6 * kWidth;
  const int64_t expected = own_rows * kWidth + kPositions * kWidth + 2 * kWidth +
                           kLayers * ((matrices + column_biases) / ranks + others);
  int64_t held = 0;
  for (const auto& param : job.model.shared().bindings().params()) {
    EXPECT_EQ(param->tensor.numel(), param->count());
    held += param->count();
  }
  EXPECT_EQ(held, expected);
}

// The norm counts what is split once for each rank, what is whole once, and what is tied once.
TEST(TensorBytes, TheNormOfGradientsIsThatOfOneRank) {
  for (const char* precision : {"fp32", "fp64"}) {
    const Trial trial = {.model = [](const JobOptions& options) {
      return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = kWidth, .heads = 4});
    }};
    JobOptions plain = {.max_grad_norm = 0.01, .precision = precision};
    Job alone = boost(one_rank(), trial.model(plain), plain);
    const double expected = alone.train_step(trial.batch(1)).grad_norm.value();
    const double tolerance = std::string(precision) == "fp64" ? 1e-10 : 1e-5;
    for (const char* stage : {"0", "1", "2"}) {
      on_ranks({2, 4}, [&](World& world) {
        JobOptions options = hybrid(2, std::string(", \"zero_stage\": ") + stage);
        options.precision = precision;
        options.max_grad_norm = 0.01;
        Job job = boost(world, trial.model(options), options);
        EXPECT_NEAR(job.train_step(own_part(trial.batch(1), job)).grad_norm.value(), expected,
                    tolerance * expected);
      });
    }
  }
}

}  // namespace

}  // namespace weft::test

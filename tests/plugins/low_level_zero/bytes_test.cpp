// What low_level_zero holds and sends, against the formulas.
#include "opening/model_state.hpp"
#include "plugins/low_level_zero/support.hpp"

namespace weft::test {

namespace {

constexpr int64_t kBlockBytes = 4 * kEvenBlock;

JobOptions even(int64_t number, const std::string& keys = "") {
  return zero(stage(number) + ", " + buckets(kEvenBlock) + (keys.empty() ? "" : ", ") + keys);
}

// Psi parameters on P ranks. Stage 1: values and gradients, and a part of the two moments; stage 2: values,
// and a part of the rest. The masters are the values.
WEFT_RANKS_TEST(Memory, IsThatOfTheFormula, 2, 3, 4) {
  const double ranks = world.size();
  const StateBytes first = state_bytes(world, even(1)), second = state_bytes(world, even(2));
  EXPECT_NEAR(static_cast<double>(first.held) / first.elements, 8 + 8 / ranks, 0.02 * (8 + 8 / ranks));
  EXPECT_NEAR(static_cast<double>(second.held) / second.elements, 4 + 12 / ranks, 0.02 * (4 + 12 / ranks));
  EXPECT_NEAR(static_cast<double>(first.configured) / first.elements, 4, 0.08);
}

// Values and, in stage 1, gradients of two bytes; of a part fp32 masters and moments.
WEFT_RANKS_TEST(Memory, InHalfPrecisionIsThatOfTheFormula, 2, 4) {
  const double ranks = world.size();
  const auto expect = [&](const JobOptions& options, double formula) {
    const StateBytes bytes = state_bytes(world, options);
    EXPECT_NEAR(static_cast<double>(bytes.held) / bytes.elements, formula, 0.02 * formula) << options.options;
  };
  for (const char* precision : {"bf16", "fp16"}) {
    const std::string scale = precision == std::string("fp16") ? "\"initial_scale\": 256" : "";
    JobOptions first = even(1, scale), second = even(2, scale);
    first.precision = second.precision = precision;
    expect(first, 4 + 12 / ranks);
    expect(second, 2 + 14 / ranks);
  }
}

// Without masters moments alone are fp32.
WEFT_RANKS_TEST(Memory, InHalfPrecisionWithoutMastersIsThatOfTheFormula, 2, 4) {
  const double ranks = world.size();
  for (const int64_t number : {1, 2}) {
    JobOptions options = even(number, "\"master_weights\": false");
    options.precision = "bf16";
    const StateBytes bytes = state_bytes(world, options);
    const double formula = number == 1 ? 4 + 8 / ranks : 2 + 10 / ranks;
    EXPECT_NEAR(static_cast<double>(bytes.held) / bytes.elements, formula, 0.02 * formula) << number;
  }
}

// What `weft plan` prints.
WEFT_RANKS_TEST(Memory, AndBytesSentAreAsEstimated, 2, 3) {
  const auto half = [](JobOptions options) {
    options.precision = "bf16";
    return options;
  };
  for (const int64_t number : {1, 2}) {
    for (const char* keys : {"", "\"communication_dtype\": \"bf16\""})
      expect_estimate_is_counted(world, even(number, keys));
    expect_estimate_is_counted(world, half(even(number)), kHalfFrozenToy);
    expect_estimate_is_counted(world, half(even(number, "\"master_weights\": false")));
  }
}

// With larger buckets the peak rises by what they hold: in stage 1, whose gradients are there anyway, what
// the peers send; in stage 2 besides one that is collected and one that is summed.
WEFT_RANKS_TEST(Memory, AtThePeakHasTwoBucketsMore, 2, 4) {
  for (const int64_t number : {1, 2}) {
    int64_t peak[2];
    for (const int64_t blocks : {1, 2}) {
      JobOptions options = zero(stage(number) + ", " + buckets(blocks * kEvenBlock));
      options.recompute = "all";
      peak[blocks - 1] = state_bytes(world, options).peak;
    }
    const double ranks = world.size(), expected = (number == 1 ? 0 : 2) + (ranks - 1) / ranks;
    EXPECT_NEAR(static_cast<double>(peak[1] - peak[0]) / kBlockBytes, expected, 0.2) << number;
  }
}

WEFT_RANKS_TEST(Memory, WithoutOverlapHasOneBucketLess, 2) {
  const StateBytes with = state_bytes(world, even(2));
  const StateBytes without = state_bytes(world, even(2, "\"overlap_communication\": false"));
  EXPECT_LT(without.peak, with.peak - kBlockBytes / 2) << with.held << " and " << without.held << " held";
}

WEFT_RANKS_TEST(Communication, ReducesAndGathersEveryParameterOnce, 2, 3, 4) {
  for (const int64_t number : {1, 2}) {
    JobOptions options = even(number);
    Job job = boost(world, toy(options, kEvenToy), options);
    const int64_t whole = 4 * job.model.num_elements() / world.size() * (world.size() - 1);
    const std::map<std::string, int64_t> expected = {{"all_gather", whole}, {"reduce_scatter", whole}};
    for (const int64_t step : {1, 2})
      EXPECT_EQ(sent_bytes([&] { job.train_step(toy_batch(2, step)); }), expected) << number;
  }
}

// Stage 1 sums once in a step, stage 2 each micro-batch.
WEFT_RANKS_TEST(Communication, SumsOnceAStepInStageOneAndEachMicroBatchInTwo, 2) {
  for (const int64_t number : {1, 2}) {
    JobOptions options = even(number);
    options.accumulate = 3;
    Job job = boost(world, toy(options, kEvenToy), options);
    const int64_t whole = 4 * job.model.num_elements() / 2;
    const auto sent = sent_bytes([&] { job.train_step(toy_batch(3, 1)); });
    EXPECT_EQ(sent.at("reduce_scatter"), number == 1 ? whole : 3 * whole);
    EXPECT_EQ(sent.at("all_gather"), whole);
  }
}

// A bucket is padded to 64 bytes a rank, its parameters to 64 bytes.
WEFT_RANKS_TEST(Communication, IncludesThePaddingOfABucket, 3) {
  const JobOptions options = zero();
  Job job = boost(world, toy(options, "\"gated\": false"), options);
  int64_t elements = 0;
  for (const auto& param : job.model.shared().bindings().params())
    elements += (param->count() + 15) / 16 * 16;
  elements = (elements + 47) / 48 * 48;
  const auto sent = sent_bytes([&] { job.train_step(toy_batch(3, 1)); });
  EXPECT_EQ(sent.at("reduce_scatter"), 4 * elements / 3 * 2);
  EXPECT_EQ(sent.at("all_gather"), 4 * elements / 3 * 2);
}

WEFT_RANKS_TEST(CommunicationDtype, IsWhatGradientsTravelAs, 2, 3) {
  for (const int64_t number : {1, 2}) {
    const auto trained = [&](const char* dtype, double bytes) {
      const JobOptions options = even(number, std::string("\"communication_dtype\": ") + dtype);
      Job job = boost(world, toy(options, kEvenToy), options);
      const auto sent = sent_bytes([&] { job.train_step(own_part(toy_batch(6, 1), world)); });
      const int64_t whole = job.model.num_elements() / world.size() * (world.size() - 1);
      EXPECT_EQ(sent.at("reduce_scatter"), static_cast<int64_t>(bytes * static_cast<double>(whole))) << dtype;
      EXPECT_EQ(sent.at("all_gather"), 4 * whole) << dtype;
      return published_values(job);
    };
    const Tensors exact = trained("null", 4);
    expect_near(trained("\"fp64\"", 8), exact, 2e-6);
    for (const auto& [name, value] : trained("\"bf16\"", 2)) {
      EXPECT_TRUE(is_near(value, exact.at(name), 0.05)) << name;
      EXPECT_GT(relative_error(value, exact.at(name)), 0) << name;
    }
  }
}

// Groups of 2: half of the bytes go to the neighbour, a quarter to the same place in the other group, and
// ranks own a part of 1 / 4 each, those of one group beside one another in the same half.
WEFT_RANKS_TEST(ExtraDpSize, SumsInsideGroupsFirst, 4) {
  for (const int64_t number : {1, 2}) {
    const JobOptions options = even(number, "\"extra_dp_size\": 2");
    const StateBytes bytes = state_bytes(world, options);
    const double formula = number == 1 ? 10 : 7;
    EXPECT_NEAR(static_cast<double>(bytes.held) / bytes.elements, formula, 0.02 * formula);
    Job job = boost(world, toy(options, kEvenToy), options);
    const int64_t whole = 4 * job.model.num_elements();
    const auto sent = sent_bytes([&] { job.train_step(toy_batch(2, 1)); });
    EXPECT_EQ(sent.at("reduce_scatter"), whole / 2 + whole / 4);
    EXPECT_EQ(sent.at("all_gather"), whole / 4 + whole / 2);
    // The embedding has a bucket to itself. Ranks 0, 1 are a group, and so are 2, 3.
    const int64_t group = world.rank() / 2, place = world.rank() % 2;
    for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK)) {
      if (shard.param->name != "wte.weight") continue;
      EXPECT_EQ(shard.begin, (2 * place + group) * shard.param->count() / 4);
    }
  }
}

WEFT_RANKS_TEST(Memory, AndBytesSentAreTheKernelsToo, 2) {
  for (const int64_t number : {1, 2}) expect_kernel_agrees(world, even(number));
}

}  // namespace

}  // namespace weft::test

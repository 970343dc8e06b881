// The options of low_level_zero that its other tests leave out.
#include "opening/model_state.hpp"
#include "plugins/low_level_zero/support.hpp"

namespace weft::test {

namespace {

TEST(Options, AreCheckedBeforeAnythingIsMade) {
  const auto job = [](const std::string& keys) { return boost(one_rank(), toy(), zero(keys)); };
  EXPECT_ERROR(job("\"stage\": 3"), WEFT_INVALID_ARGUMENT, "stage");
  EXPECT_ERROR(job("\"stages\": 1"), WEFT_INVALID_ARGUMENT, "stage");
  EXPECT_ERROR(job("\"reduce_bucket_size_in_m\": -1"), WEFT_INVALID_ARGUMENT, "reduce_bucket_size_in_m");
  EXPECT_ERROR(job("\"communication_dtype\": \"int8\""), WEFT_INVALID_ARGUMENT, "communication_dtype");
}

WEFT_RANKS_TEST(ExtraDpSize, MustDivideTheRanks, 2, 3) {
  const char* const keys = world.size() == 2 ? "\"extra_dp_size\": 4" : "\"extra_dp_size\": 2";
  EXPECT_ERROR(boost(world, toy(), zero(keys)), WEFT_INVALID_ARGUMENT, "low_level_zero: extra_dp_size",
               "the " + std::to_string(world.size()) + " data-parallel ranks");
}

// While the first unit's gradient is made, the last units' are on their way, or not.
WEFT_RANKS_TEST(OverlapCommunication, SumsWhileBackwardGoesOn, 2) {
  for (const bool overlap : {true, false}) {
    const JobOptions options =
        zero(buckets(40) + ", \"overlap_communication\": " + (overlap ? "true" : "false"));
    Job job = boost(world, toy(options), options);
    const int64_t before = communicated_bytes().at("reduce_scatter");
    int64_t at_last_gradient = -1;
    job.model.module().named_parameters()["wte.weight"].register_hook([&](const at::Tensor& gradient) {
      at_last_gradient = communicated_bytes().at("reduce_scatter") - before;
      return gradient;
    });
    job.train_step(toy_batch(2, 1));
    EXPECT_EQ(at_last_gradient > 0, overlap) << at_last_gradient;
  }
}

// A unit without any gradient holds nothing up: its buckets and those after it are summed with zeros.
WEFT_RANKS_TEST(OverlapCommunication, DoesNotWaitForParametersWithoutGradient, 2) {
  for (const int64_t number : {1, 2}) {
    const JobOptions options = zero(stage(number) + ", " + buckets(1));
    Job job = boost(world, toy(options), options);
    const int64_t before = communicated_bytes().at("reduce_scatter");
    int64_t at_last_gradient = 0;
    job.model.module().named_parameters()["wte.weight"].register_hook([&](const at::Tensor& gradient) {
      at_last_gradient = communicated_bytes().at("reduce_scatter") - before;
      return gradient;
    });
    job.train_step(with(toy_batch(2, 1), "skip", 1));
    // A bucket for every parameter; all have gone but that of the embedding.
    int64_t others = 0;
    for (const auto& param : job.model.shared().bindings().params())
      if (param->name != "wte.weight") others += (param->count() + 31) / 32 * 16 * 4;
    EXPECT_EQ(at_last_gradient, others);
  }
}

// Rank 1 sends its values only when rank 0 has gone on.
WEFT_RANKS_TEST(OverlapAllgather, GoesOnWhileValuesTravel, 2) {
  const JobOptions options = zero(buckets(40) + ", \"overlap_allgather\": true");
  Job job = boost(world, toy(options), options);
  Bindings& bindings = job.model.shared().bindings();
  const Tensors initial = values_of(job);
  for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) at::Tensor(shard.value).add_(1);
  const at::Tensor word = at::zeros({1});
  if (world.rank() == 0) {
    bindings.values_changed(WEFT_REASON_UPDATE);
    world.communicator().send(word, 1, 7).wait();
  } else {
    world.communicator().recv(word, 0, 7).wait();
    bindings.values_changed(WEFT_REASON_UPDATE);
  }
  job.evaluate(toy_batch(2, 1));  // every unit goes forward, and so has its values
  Tensors expected = initial;
  for (auto& [name, value] : expected) value = value + 1;
  expect_equal(values_of(job), expected);
  // Two updates without a forward between.
  for (const double more : {1, 2}) {
    for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) at::Tensor(shard.value).add_(more);
    bindings.values_changed(WEFT_REASON_UPDATE);
  }
  job.evaluate(toy_batch(2, 1));
  for (auto& [name, value] : expected) value = value + 1 + 2;
  expect_equal(values_of(job), expected);
}

WEFT_RANKS_TEST(OverlapAllgather, OffLeavesValuesCompleteAfterAStep, 2) {
  const JobOptions options = zero();
  Job job = boost(world, toy(options), options);
  job.train_step(toy_batch(2, 1));
  const Tensors values = values_of(job), published = published_values(job);
  for (const auto& [name, value] : published)
    EXPECT_TRUE(values.at(name).to(at::kDouble).equal(value)) << name;
}

TEST(Verbose, LogsTheLayout) {
  for (const bool verbose : {false, true}) {
    const auto outcomes = run_ranks(1, [&](int) {
      boost(one_rank(), toy(), zero(verbose ? "\"verbose\": true" : ""));
      FAIL();  // so that the output is kept
    });
    const bool logged = outcomes[0].output.find("buckets of") != std::string::npos;
    EXPECT_EQ(logged, verbose) << outcomes[0].output;
  }
}

}  // namespace

}  // namespace weft::test

// The kit by itself, on a host of one process.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <weft/kit/flat_shard.hpp>
#include <weft/kit/whole_gradients.hpp>
#include <weft/kit/zero_redundancy.hpp>

#include "sdk/kit/fake_host.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

using namespace plugin;

namespace {

using Names = std::vector<std::string>;

class Kit : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_fake_host(); }
  void SetUp() override { take_collectives(); }
};

// A gradient of ones times `factor`, as autograd would leave it.
void give_gradient(weft_param& param, float factor) {
  param.tensor.mutable_grad() = at::full({param.count}, factor);
}

Pass one_micro_batch(bool synchronise) {
  Pass pass;
  pass.num_micros = 1;
  pass.synchronise = synchronise;
  return pass;
}

// One backward: the gradient of parameter i is i + 1; those in `unused` get none.
void run_backward(kit::DataAxis& axis, weft_training& training, bool synchronise = true,
                  const std::vector<size_t>& unused = {}) {
  axis.begin(one_micro_batch(synchronise));
  for (size_t i = training.params.size(); i-- > 0;) {
    if (std::count(unused.begin(), unused.end(), i) == 0) {
      give_gradient(training.params[i], static_cast<float>(i + 1));
      axis.ready(Parameter(&training.params[i]));
    }
    axis.unit_done(Unit(&training.units[i]));
  }
  axis.end();
}

std::vector<weft_shard_sink::Record> publish(const kit::DataAxis& axis) {
  weft_shard_sink records;
  ShardSink sink(&records, WEFT_REASON_CHECK);
  axis.publish(sink);
  return records.records;
}

void expect_all(const at::Tensor& tensor, float value, const std::string& name) {
  ASSERT_TRUE(tensor.defined()) << name;
  EXPECT_TRUE(tensor.eq(value).all().item<bool>()) << name << " is " << tensor;
}

TEST_F(Kit, OwnRangeIsWhereAPartAndAParameterMeet) {
  const auto range = [](int64_t part_begin, int64_t part_count, int64_t offset, int64_t count) {
    const kit::OwnRange own = kit::own_range(part_begin, part_count, offset, count);
    return std::vector<int64_t>{own.begin, own.place, own.count};
  };
  EXPECT_EQ(range(10, 10, 0, 30), (std::vector<int64_t>{10, 0, 10}));  // covers the part
  EXPECT_EQ(range(10, 10, 12, 3), (std::vector<int64_t>{0, 2, 3}));    // lies in it
  EXPECT_EQ(range(10, 10, 5, 8), (std::vector<int64_t>{5, 0, 3}));     // begins before
  EXPECT_EQ(range(10, 10, 18, 8), (std::vector<int64_t>{0, 8, 2}));    // ends after
  EXPECT_LE(kit::own_range(10, 10, 0, 10).count, 0);
  EXPECT_LE(kit::own_range(10, 10, 20, 5).count, 0);
}

TEST_F(Kit, NestedRanksDivideGroupByGroup) {
  weft_comm inner{1, 2}, outer{2, 3};
  const kit::NestedRanks ranks({Communicator(&inner), Communicator(&outer)});
  EXPECT_EQ(ranks.size(), 6);
  EXPECT_EQ(ranks.begin_of_own(12), 10);
  const at::Tensor whole = at::ones({12});
  for (size_t level = 0; level < 2; ++level) ranks.reduce(whole, level, ranks.part(whole, level + 1)).wait();
  expect_all(ranks.own(whole), 6, "the own part");
  for (size_t level = 2; level-- > 0;) ranks.gather(whole, level).wait();
  expect_all(whole, 6, "the whole");
  EXPECT_EQ(take_collectives(),
            (Names{"reduce_scatter 12", "reduce_scatter 6", "all_gather 2", "all_gather 6"}));
}

TEST_F(Kit, GradientBucketsCloseWithTheParameterThatFillsThem) {
  weft_training training = model_of({4, 4, 4, 4, 4}, 0, 2);
  training.params[1].frozen = true;
  kit::WholeValues values;
  values.build(Training(&training));
  kit::GradientBuckets buckets;
  buckets.build(Training(&training), values.parameters(), {.first_bytes = 16, .capacity_bytes = 32});
  EXPECT_EQ(buckets.layout(), (std::vector<Names>{{"p4"}, {"p2", "p3"}, {"p0"}}));
}

// Backward completes the last bucket first; the sums start in the order of the buckets all the same.
TEST_F(Kit, GradientBucketsStartInTheirOrder) {
  weft_training training = model_of({1, 2, 3}, 0, 2);
  kit::WholeValues values;
  values.build(Training(&training));
  kit::GradientBuckets buckets;
  buckets.build(Training(&training), values.parameters(), {.first_bytes = 1, .capacity_bytes = 1});
  buckets.begin(true);
  for (const size_t i : {0, 1}) {
    give_gradient(training.params[i], 1);
    buckets.ready(Parameter(&training.params[i]));
    EXPECT_EQ(buckets.started(), 0u);
  }
  give_gradient(training.params[2], 1);
  buckets.ready(Parameter(&training.params[2]));
  EXPECT_EQ(take_collectives(), (Names{"all_reduce 3", "all_reduce 2", "all_reduce 1"}));
  buckets.end();
}

TEST_F(Kit, WholeGradientsRefuseAParameterThatGotNone) {
  weft_training training = model_of({2, 3}, 0, 2);
  kit::WholeGradients axis({}, {});
  axis.configure(Training(&training));
  EXPECT_ERROR(run_backward(axis, training, true, {1}), WEFT_FAILED_PRECONDITION, "parameter p1",
               "no gradient", "find_unused_parameters=true");
}

TEST_F(Kit, WholeGradientsAreSummedOnEveryRank) {
  weft_training training = model_of({2, 3}, 1, 4);
  kit::WholeGradients axis({.find_unused = true}, {});
  axis.configure(Training(&training));
  run_backward(axis, training);
  const auto records = publish(axis);
  ASSERT_EQ(records.size(), 2u);
  for (const auto& record : records) {
    EXPECT_EQ(record.axes, 0u);
    EXPECT_EQ(record.value.numel(), record.param->count);
    EXPECT_EQ(record.value[1].item<float>(), initial_value(*record.param, 1));
    expect_all(record.gradient, 4.0f * static_cast<float>(record.param->index + 1), record.param->name);
  }
  axis.zero();
  EXPECT_FALSE(publish(axis)[0].gradient.defined());
  run_backward(axis, training, true, {0});
  expect_all(publish(axis)[0].gradient, 0, "an unused parameter");
}

TEST_F(Kit, WholeGradientsNoticeAnUpdateWithoutASum) {
  weft_training training = model_of({2}, 0, 2);
  kit::WholeGradients axis({}, {.check_reduction = true});
  axis.configure(Training(&training));
  axis.before_forward(Unit(training.units.data()));
  run_backward(axis, training, false);
  axis.values_changed();
  EXPECT_ERROR(axis.before_forward(Unit(training.units.data())), WEFT_FAILED_PRECONDITION, "check_reduction",
               "never summed");
}

kit::ZeroBucketOptions zero_options(int64_t stage) {
  return {.stage = stage, .capacity = 64};
}

TEST_F(Kit, ZeroRedundancyRefusesNoSyncInStageTwo) {
  weft_training training = model_of({2}, 0, 2);
  kit::ZeroRedundancy axis(zero_options(2), "zero_stage");
  axis.configure(Training(&training));
  EXPECT_ERROR(axis.begin(one_micro_batch(false)), WEFT_FAILED_PRECONDITION, "no_sync", "zero_stage 2",
               "use zero_stage 1");
}

TEST_F(Kit, ZeroRedundancyRefusesToPublishWhatNoSumContains) {
  weft_training training = model_of({2}, 0, 2);
  kit::ZeroRedundancy axis(zero_options(1), "stage");
  axis.configure(Training(&training));
  run_backward(axis, training, false);
  EXPECT_ERROR(publish(axis), WEFT_FAILED_PRECONDITION, "never summed");
}

// Parts begin at multiples of 64 bytes: 16 elements for each of two ranks. In stage 1 a second backward adds
// to sums that their owner alone keeps, which ranks that are all alike cannot show.
TEST_F(Kit, ZeroRedundancySumsTheGradientsThatThisRankOwns) {
  for (const int64_t stage : {1, 2})
    for (const uint32_t rank : {0u, 1u}) {
      weft_training training = model_of({20, 5}, rank, 2);
      training.params[1].frozen = true;
      kit::ZeroRedundancy axis(zero_options(stage), "stage");
      axis.configure(Training(&training));
      for (int64_t repeat = 1; repeat <= stage; ++repeat) {
        axis.begin(one_micro_batch(true));
        give_gradient(training.params[0], 3);
        axis.ready(Parameter(training.params.data()));
        axis.end();
        const auto records = publish(axis);
        ASSERT_EQ(records.size(), 2u);
        EXPECT_EQ(records[0].begin, rank == 0 ? 0 : 16);
        EXPECT_EQ(records[0].value.numel(), rank == 0 ? 16 : 4);
        expect_all(records[0].gradient, 6.0f * static_cast<float>(repeat), "the gradient");
        EXPECT_NE(records[0].axes, 0u);
        EXPECT_EQ(records[1].value.numel(), 5);  // frozen: whole
        EXPECT_FALSE(records[1].gradient.defined());
      }
      axis.zero();
      EXPECT_FALSE(publish(axis)[0].gradient.defined());
    }
}

// An operation may ask for a sum over the tensor axis: the second parameter is sharded over it, too.
TEST_F(Kit, ZeroRedundancySumsOverEveryAxisThatAParameterNames) {
  weft_training training = model_of({64, 64}, 1, 2);
  training.tensor = {1, 2};
  training.params[1].more_gradient_axes = 1u << axis::kTensor | 1u << axis::kTensorRow;
  kit::ZeroRedundancy axis(zero_options(2), "stage");
  axis.configure(Training(&training));
  run_backward(axis, training);
  const auto records = publish(axis);
  ASSERT_EQ(records.size(), 2u);  // in the reverse order of the parameters
  EXPECT_EQ(records[0].begin, 48);
  EXPECT_EQ(records[0].value.numel(), 16);
  expect_all(records[0].gradient, 2 * 2 * 2, "the gradient over four ranks");
  EXPECT_NE(records[0].axes & 1u << axis::kTensor, 0u);
  EXPECT_EQ(records[1].begin, 32);
  EXPECT_EQ(records[1].value.numel(), 32);
  expect_all(records[1].gradient, 1 * 2, "the gradient over two ranks");
  EXPECT_EQ(records[1].axes & 1u << axis::kTensor, 0u);
}

TEST_F(Kit, ZeroRedundancyGathersUpdatedValues) {
  weft_training training = model_of({32}, 0, 2);
  kit::ZeroRedundancy axis(zero_options(1), "stage");
  axis.configure(Training(&training));
  publish(axis)[0].value.fill_(7);
  axis.values_changed();
  expect_all(training.params[0].tensor, 7, "the parameter");  // the other rank is alike
  EXPECT_EQ(take_collectives(), Names{"all_gather 16"});
}

TEST_F(Kit, FlatShardsHaveMemoryWhileTheyAreGathered) {
  weft_training training = model_of({4, 2}, 1, 2);
  kit::FlatShard shard;
  for (weft_param& param : training.params) shard.add(Parameter(&param));
  shard.close({Communicator(&training.data), Communicator(&training.alone), 1u << axis::kData}, at::kFloat);
  EXPECT_EQ(training.params[0].tensor.storage().nbytes(), 0u);
  shard.gather();
  EXPECT_EQ(training.params[0].tensor.storage().nbytes(), 6 * sizeof(float));
  // Both parts are this rank's: the last element of p0 and all of p1.
  EXPECT_EQ(training.params[1].tensor[1].item<float>(), initial_value(training.params[1], 1));
  for (weft_param& param : training.params) {
    give_gradient(param, 1);
    shard.collect(Parameter(&param));
  }
  shard.reduce();
  shard.replicate();
  shard.finish();
  shard.release();
  EXPECT_EQ(training.params[0].tensor.storage().nbytes(), 0u);
  weft_shard_sink records;
  shard.publish(ShardSink(&records, WEFT_REASON_CHECK));
  ASSERT_EQ(records.records.size(), 2u);
  EXPECT_EQ(records.records[0].begin, 3);
  for (const auto& record : records.records) expect_all(record.gradient, 2, record.param->name);
}

TEST_F(Kit, EstimatesAreOfTheFormulas) {
  const weft_param_shape trained = {sizeof(weft_param_shape), 64, 0, 0, 0, 0};
  const weft_param_shape frozen = {sizeof(weft_param_shape), 32, 1, 1, 1, 0};
  const std::vector<const weft_param_shape*> params = {&trained, &frozen};
  weft_job_shape job{sizeof(weft_job_shape), params.data(), 2, 2, 4, 4, 2, 4, 0};
  weft_job_estimate whole{}, zero{};
  kit::WholeGradients({.views = true}, {}).estimate(4, job, whole);
  EXPECT_EQ(whole.parameters, 96 * 4);
  EXPECT_EQ(whole.gradients, 64 * 4);
  EXPECT_EQ(whole.states, 2 * 64 * 4);
  EXPECT_EQ(whole.sent_all_reduce, 2 * 64 * 4 * 3 / 4);
  kit::ZeroRedundancy(zero_options(2), "stage").estimate(4, job, zero);
  EXPECT_EQ(zero.parameters, 96 * 4);
  EXPECT_EQ(zero.gradients, 64 / 4 * 4);
  EXPECT_EQ(zero.states, 2 * 64 / 4 * 4);
  EXPECT_EQ(zero.sent_reduce_scatter, 64 / 4 * 3 * 4);
}

}  // namespace

}  // namespace weft::test

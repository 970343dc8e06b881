#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <set>
#include <stdexcept>

#include "loader/prefetcher.hpp"
#include "support/expect_error.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {
namespace {

// Sample i is the number i.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>& indices) const override {
    for (const int64_t index : indices) {
      if (index == broken) throw std::runtime_error("sample is broken");
    }
    ++calls;
    Batch batch;
    batch.set("input_ids", at::tensor(indices, at::kLong));
    batch.set("labels", at::tensor(indices, at::kLong));
    batch.set("start_positions", at::tensor(indices, at::kLong));
    return batch;
  }
  mutable std::atomic<int> calls{0};
  int64_t broken = -1;

 private:
  int64_t size_;
};

std::shared_ptr<Numbers> numbers(int64_t size) {
  return std::make_shared<Numbers>(size);
}

std::vector<int64_t> values(const Batch& batch, const char* name = "input_ids") {
  const at::Tensor tensor = batch.at(name);
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}

using Batches = std::vector<std::vector<int64_t>>;

Batches rest_of_epoch(Loader& loader) {
  Batches batches;
  for (const Batch& batch : loader) batches.push_back(values(batch));
  return batches;
}

LoaderOptions options_of(int64_t batch_size, int64_t rank = 0, int64_t ranks = 1) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.rank = rank;
  options.ranks = ranks;
  return options;
}

TEST(Sampler, IsThePermutationThatItHasAlwaysBeen) {
  EXPECT_EQ(shuffling_sampler(42)->order(10, 0), (std::vector<int64_t>{2, 0, 4, 7, 8, 3, 5, 1, 9, 6}));
  EXPECT_EQ(shuffling_sampler(42)->order(10, 1), (std::vector<int64_t>{5, 2, 0, 1, 8, 7, 9, 6, 4, 3}));
  EXPECT_EQ(shuffling_sampler(-1)->order(10, 0), (std::vector<int64_t>{6, 2, 7, 3, 9, 1, 4, 5, 8, 0}));
  EXPECT_EQ(sequential_sampler()->order(3, 5), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Sampler, ReachesEveryPermutation) {
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t epoch = 0; epoch < 2400; ++epoch) ++seen[shuffling_sampler(7)->order(4, epoch)];
  ASSERT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 100, 40);
}

TEST(Sampler, HoldsEachIndexOnce) {
  EXPECT_TRUE(shuffling_sampler(1)->order(0, 0).empty());
  std::vector<int64_t> order = shuffling_sampler(1)->order(1000, 3);
  EXPECT_NE(order, shuffling_sampler(2)->order(1000, 3));
  EXPECT_NE(order, shuffling_sampler(1)->order(1000, 4));
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, sequential_sampler()->order(1000, 0));
}

TEST(Loader, RefusesABatchThatRanksCannotShare) {
  EXPECT_ERROR(Loader(numbers(10), options_of(7, 0, 2)), WEFT_INVALID_ARGUMENT, "batch of 7",
               "2 data-parallel ranks", "--batch-size", "6 or 8");
  EXPECT_ERROR(Loader(numbers(10), options_of(2, 0, 3)), WEFT_INVALID_ARGUMENT, "batch of 2",
               "3 data-parallel ranks", "multiple of 3, 3 for example");
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  EXPECT_ERROR(Loader(nullptr, options_of(1)), WEFT_INVALID_ARGUMENT, "data set");
  EXPECT_ERROR(Loader(numbers(10), options_of(0)), WEFT_INVALID_ARGUMENT, "batch_size is 0");
  EXPECT_ERROR(Loader(numbers(10), options_of(2, 2, 2)), WEFT_INVALID_ARGUMENT, "rank is 2", "0 to 1");
  EXPECT_ERROR(Loader(numbers(0), options_of(2)), WEFT_INVALID_ARGUMENT, "0 samples", "batch of 2");
  LoaderOptions options = options_of(4);
  options.num_workers = -1;
  EXPECT_ERROR(Loader(numbers(10), options), WEFT_INVALID_ARGUMENT, "num_workers is -1");
  options = options_of(4);
  options.shuffle = true;
  options.sampler = sequential_sampler();
  EXPECT_ERROR(Loader(numbers(10), options), WEFT_INVALID_ARGUMENT, "sampler", "shuffle");
  options = options_of(4);
  options.drop_last = true;
  EXPECT_ERROR(Loader(numbers(3), options), WEFT_INVALID_ARGUMENT, "3 samples", "batch of 4", "drop_last");
  EXPECT_ERROR(Loader().batches_per_epoch(), WEFT_FAILED_PRECONDITION, "data set");
}

TEST(Loader, RefusesPinnedMemoryWithoutAGpu) {
  if (at::hasCUDA()) GTEST_SKIP() << "there is a GPU";
  LoaderOptions options = options_of(2);
  options.pin_memory = true;
  EXPECT_ERROR(Loader(numbers(10), options), WEFT_FAILED_PRECONDITION, "pin_memory", "no GPU");
}

TEST(Loader, RefusesASamplerThatDrawsWhatIsNotThere) {
  struct Beyond final : Sampler {
    std::vector<int64_t> order(int64_t size, int64_t) const override { return {0, size}; }
  };
  LoaderOptions options = options_of(2);
  options.sampler = std::make_shared<Beyond>();
  EXPECT_ERROR(Loader(numbers(10), options), WEFT_OUT_OF_RANGE, "sample 10", "epoch 0", "there are 10");
}

TEST(Loader, GivesRankRTheRthContiguousPart) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    Loader loader(numbers(12), options_of(6, rank, 3));
    EXPECT_EQ(loader.batches_per_epoch(), 2);
    EXPECT_EQ(rest_of_epoch(loader), (Batches{{rank * 2, rank * 2 + 1}, {6 + rank * 2, 7 + rank * 2}}));
  }
}

TEST(Loader, SplitsAShortLastBatchAsEvenlyAsItCan) {
  // 6 + 5 samples over 3 ranks: 2 2 2, then 2 2 1.
  const std::vector<Batches> expected = {{{0, 1}, {6, 7}}, {{2, 3}, {8, 9}}, {{4, 5}, {10}}};
  for (int64_t rank = 0; rank < 3; ++rank) {
    Loader loader(numbers(11), options_of(6, rank, 3));
    EXPECT_EQ(rest_of_epoch(loader), expected[rank]);
  }
}

TEST(Loader, GivesARankWithoutSamplesTheFirstOneAsAStandIn) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    Loader loader(numbers(5), options_of(3, rank, 3));
    Batch batch;
    ASSERT_TRUE(loader.next(batch));
    EXPECT_FALSE(batch.empty);
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch.empty, rank == 2);
    EXPECT_EQ(values(batch), std::vector<int64_t>{rank == 1 ? 4 : 3});
    for (const char* name : {"labels", "start_positions"}) EXPECT_EQ(values(batch, name), values(batch));
  }
}

TEST(Loader, DropsAShortLastBatchIfAsked) {
  LoaderOptions options = options_of(4);
  options.drop_last = true;
  Loader loader(numbers(11), options);
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_EQ(rest_of_epoch(loader), (Batches{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(Loader, ShufflesEveryEpochAnewAndAlikeOnAllRanks) {
  LoaderOptions options = options_of(4);
  options.shuffle = true;
  Loader one(numbers(8), options);
  options = options_of(4, 1, 2);
  options.shuffle = true;
  Loader second_half(numbers(8), options);
  Batches first;
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(one.position().epoch, epoch);
    const Batches whole = rest_of_epoch(one), half = rest_of_epoch(second_half);
    ASSERT_EQ(whole.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(half[i], (std::vector<int64_t>(whole[i].begin() + 2, whole[i].end())));
    }
    EXPECT_NE(whole, first);
    first = whole;
    std::set<int64_t> seen;
    for (const auto& batch : whole) seen.insert(batch.begin(), batch.end());
    EXPECT_EQ(seen.size(), 8u);
  }
}

TEST(Loader, CountsThePositionThatCopiesShare) {
  Loader loader(numbers(4), options_of(2)), copy = loader;
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  EXPECT_EQ(copy.position().batch, 1);
  EXPECT_TRUE(copy.next(batch));
  EXPECT_EQ(values(batch), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(loader.position().epoch, 0);
  EXPECT_EQ(loader.position().batch, 2);
  EXPECT_FALSE(loader.next(batch));
  EXPECT_EQ(loader.position().epoch, 1);
  EXPECT_EQ(loader.position().batch, 0);
  EXPECT_TRUE(copy.next(batch));
}

TEST(Loader, RefusesToSeekBeyondTheEpoch) {
  Loader loader(numbers(4), options_of(2));
  EXPECT_ERROR(loader.seek({0, 3}), WEFT_OUT_OF_RANGE, "batch 3", "epoch has 2");
  EXPECT_ERROR(loader.seek({-1, 0}), WEFT_OUT_OF_RANGE, "epoch is -1");
  EXPECT_EQ(loader.position().batch, 0);
}

class LoaderWithWorkers : public testing::TestWithParam<int64_t> {
 protected:
  LoaderOptions options() const {
    LoaderOptions options = options_of(3);
    options.shuffle = true;
    options.num_workers = GetParam();
    return options;
  }
};

TEST_P(LoaderWithWorkers, GivesTheSameBatchesInTheSameOrder) {
  LoaderOptions without = options();
  without.num_workers = 0;
  Loader expected(numbers(100), without), loader(numbers(100), options());
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(rest_of_epoch(loader), rest_of_epoch(expected));
}

TEST_P(LoaderWithWorkers, RepeatsWhatWouldHaveFollowed) {
  Loader loader(numbers(20), options());
  Batch batch;
  for (const int steps : {0, 3, 5, 7, 8}) {  // an epoch has 7 batches
    loader.seek({2, 0});
    for (int i = 0; i < steps; ++i) loader.next(batch);
    const Loader::Position position = loader.position();
    const Batches expected = rest_of_epoch(loader), next_epoch = rest_of_epoch(loader);
    Loader resumed(numbers(20), options());
    resumed.seek(position);
    EXPECT_EQ(rest_of_epoch(resumed), expected) << steps;
    EXPECT_EQ(rest_of_epoch(resumed), next_epoch) << steps;
    resumed.seek(position);  // after reading ahead
    EXPECT_EQ(rest_of_epoch(resumed), expected) << steps;
  }
}

TEST_P(LoaderWithWorkers, ThrowsWhatReadingASampleThrew) {
  auto data = numbers(12);
  data->broken = 7;
  LoaderOptions in_order = options();
  in_order.shuffle = false;
  Loader loader(data, in_order);
  Batch batch;
  EXPECT_TRUE(loader.next(batch));
  EXPECT_TRUE(loader.next(batch));
  EXPECT_THROW(loader.next(batch), std::runtime_error);
  EXPECT_THROW(loader.next(batch), std::runtime_error);
  EXPECT_EQ(loader.position().batch, 2);
  loader.seek({0, 3});
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(values(batch), (std::vector<int64_t>{9, 10, 11}));
}

TEST_P(LoaderWithWorkers, ReadsAheadOnlySoFar) {
  auto data = numbers(300);
  Loader loader(data, options());
  EXPECT_EQ(data->calls, 0);
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_LE(data->calls, 1 + 2 * GetParam());
}

TEST_P(LoaderWithWorkers, DropsWhatItReadAheadWhenItSeeks) {
  auto data = numbers(100);
  Loader loader(data, options()), expected(numbers(100), options());
  for (int64_t epoch = 1; epoch < 20; ++epoch) {
    Batch batch;
    ASSERT_TRUE(loader.next(batch));  // threads may be anywhere in batches 1, 2, ... of the epoch before
    loader.seek({epoch, 1});
    expected.seek({epoch, 1});
    EXPECT_EQ(rest_of_epoch(loader), rest_of_epoch(expected)) << epoch;
  }
}

// A fetch that was under way when the loader moved on: its batch is of the old epoch and must not be handed
// out.
TEST(Prefetcher, DropsABatchThatWasUnderWayAtARestart) {
  std::promise<void> begun, release;
  const auto number = [](int64_t value) {
    Batch batch;
    batch.set("input_ids", at::full({1}, value, at::kLong));
    return batch;
  };
  Prefetcher prefetcher(1);
  const auto old = [&, released = release.get_future().share()](int64_t) {
    begun.set_value();
    released.wait();
    return number(0);
  };
  prefetcher.restart(old, 0, 1);
  begun.get_future().wait();
  prefetcher.restart([&](int64_t) { return number(1); }, 0, 1);
  release.set_value();
  EXPECT_EQ(values(prefetcher.take()), std::vector<int64_t>{1});
}

INSTANTIATE_TEST_SUITE_P(Threads, LoaderWithWorkers, testing::Values(0, 1, 4));

}  // namespace
}  // namespace weft::data

// Traces, eviction and placement, from sizes and orders alone.
#include "gemini/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "gemini/chunk_search.hpp"
#include "gemini/tensor_state.hpp"
#include "plugins/gemini/eviction.hpp"
#include "support/expect_error.hpp"

namespace weft::plugin::gemini {

namespace {

// A tied chunk 0 of first and last unit, and one chunk for each unit between.
Trace tied(size_t blocks) {
  std::vector<Chunks> units = {{0}};
  for (size_t i = 1; i <= blocks; ++i) units.push_back({i});
  units.push_back({0});
  return Trace(units, blocks + 1);
}

int64_t by_least_recent_use(const Trace& trace, const Sizes& sizes, int64_t room) {
  const auto age = [&](size_t chunk, size_t now) {
    size_t nearest = trace.operations();
    for (size_t unit = 0; unit < trace.units(); ++unit)
      for (const size_t used : trace.chunks_of(unit))
        if (used == chunk)
          for (const size_t operation : {trace.forward(unit), trace.backward(unit)})
            nearest = std::min(nearest, (now + trace.operations() - operation) % trace.operations());
    return nearest;
  };
  return moved(trace, sizes, room, [&](const Chunks& candidates, size_t now) {
    return *std::max_element(candidates.begin(), candidates.end(),
                             [&](size_t a, size_t b) { return age(a, now) < age(b, now); });
  });
}

}  // namespace

TEST(TensorStates, AllowTheOriginalsTransitionsAndNoOthers) {
  using enum TensorState;
  EXPECT_TRUE(may_become(kFree, kHold));
  EXPECT_TRUE(may_become(kHold, kCompute));
  EXPECT_TRUE(may_become(kCompute, kHoldAfterBackward));
  EXPECT_TRUE(may_become(kHoldAfterBackward, kReadyForReduce));
  EXPECT_TRUE(may_become(kReadyForReduce, kHold));
  EXPECT_FALSE(may_become(kCompute, kFree));
  EXPECT_FALSE(may_become(kCompute, kReadyForReduce));
  EXPECT_FALSE(may_become(kReadyForReduce, kFree));  // would lose a gradient
  EXPECT_FALSE(may_become(kReadyForReduce, kCompute));
  EXPECT_FALSE(may_become(kHold, kReadyForReduce));
}

TEST(Trace, KnowsTheNextUse) {
  const Trace trace = tied(3);  // operations: 0 1 2 3 4, 4 3 2 1 0 backward
  EXPECT_EQ(trace.distance(0, 0), 4u);
  EXPECT_EQ(trace.distance(0, 5), 4u);
  EXPECT_EQ(trace.distance(2, 2), 5u);
  EXPECT_EQ(trace.distance(3, 7), 6u);  // in the next step
  EXPECT_EQ(trace.distance(1, 2, true), 4u);
  EXPECT_EQ(trace.needed_last({0, 1, 2}, 3), 1u);
  EXPECT_EQ(trace.needed_last({}, 3), std::nullopt);
}

TEST(Eviction, ByLookingAheadBringsInFewerChunksThanByLeastRecentUse) {
  const Trace trace = tied(24);
  const Sizes sizes(25, 1);
  for (const int64_t room : {2, 3, 6, 12, 20})
    EXPECT_LT(by_looking_ahead(trace, sizes, room), by_least_recent_use(trace, sizes, room)) << room;
  EXPECT_EQ(by_looking_ahead(trace, sizes, 25), 75);  // with room for all, once a step
}

// GPT-2 small in the chunks of the search: who looks back throws the tied embedding out in every step, a
// sixth to a quarter of all that moves.
TEST(Eviction, ByLookingAheadMovesLessOfGpt2) {
  constexpr int64_t kWidth = 768;
  Sizes params = {50257 * kWidth, 1024 * kWidth};
  std::vector<Chunks> params_of_units = {{0, 1}};
  const auto add = [&](Chunks& unit, int64_t elements) {
    unit.push_back(params.size());
    params.push_back(elements);
  };
  for (int block = 0; block < 12; ++block)
    for (Chunks& unit = params_of_units.emplace_back(); const int64_t of_square : {3, 1, 4, 4})
      add(unit, of_square * kWidth * kWidth);
  add(params_of_units.emplace_back(Chunks{0}), 2 * kWidth);
  const ChunkLayout layout =
      search_chunks(params, 1, {.search_range_m = 4, .hidden_dim = kWidth, .min_chunk_size_m = 4});
  Sizes sizes;
  Chunks chunk_of(params.size());
  for (const ChunkPlan& chunk : layout.chunks) {
    for (const Place& place : chunk.places) chunk_of[place.parameter] = sizes.size();
    sizes.push_back(chunk.size);
  }
  std::vector<Chunks> chunks_of_units;
  for (const Chunks& unit : params_of_units) {
    std::set<size_t> used;
    for (const size_t param : unit) used.insert(chunk_of[param]);
    chunks_of_units.emplace_back(used.begin(), used.end());
  }
  const Trace trace(chunks_of_units, sizes.size());
  const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (const int64_t percent : {55, 65, 75, 85, 95}) {
    const int64_t room = all * percent / 100;
    const int64_t ahead = by_looking_ahead(trace, sizes, room),
                  recent = by_least_recent_use(trace, sizes, room);
    EXPECT_EQ(recent - ahead, 3 * params[0]) << percent;
    EXPECT_LT(ahead, recent * 84 / 100) << percent;
  }
  EXPECT_EQ(by_looking_ahead(trace, sizes, all), 3 * all);
}

TEST(Placement, RefusesOptionsThatContradictEachOther) {
  EXPECT_ERROR(check({.offload_param_frac = 0.5}), WEFT_INVALID_ARGUMENT, "offload_param_frac is 0.5",
               "offload_optim_frac=1");
  EXPECT_NO_THROW(check({.offload_optim_frac = 1, .offload_param_frac = 0.5}));
}

TEST(Placement, DividesByTheFractions) {
  const std::vector<int64_t> bytes = {10, 10, 10, 10};
  const Placement half = place({.shard_param_frac = 0.5, .offload_optim_frac = 0.5}, bytes);
  EXPECT_EQ(half.optimizer_on_host, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(half.shard_on_accelerator, half.optimizer_on_host);
  EXPECT_EQ(half.kept_gathered, (std::vector<bool>{false, false, true, true}));
  EXPECT_FALSE(half.evicts);
  const Placement offloaded = place({.offload_optim_frac = 1, .offload_param_frac = 0.25}, bytes);
  EXPECT_EQ(offloaded.shard_on_accelerator, (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(place({.policy = "cuda"}, bytes).kept_gathered, std::vector<bool>(4, true));
  for (const char* policy : {"cpu", "const", "auto"}) {
    const Placement placement = place({.policy = policy}, bytes);
    EXPECT_EQ(placement.optimizer_on_host, std::vector<bool>(4, true)) << policy;
    EXPECT_EQ(placement.shard_on_accelerator, std::vector<bool>(4, false)) << policy;
    EXPECT_EQ(placement.evicts, std::string(policy) != "cpu") << policy;
  }
}

}  // namespace weft::plugin::gemini

// Traces, eviction and placement, from sizes and orders alone.
#include "gemini/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "gemini/tensor_state.hpp"
#include "gemini/trace.hpp"
#include "support/expect_error.hpp"

namespace weft::gemini {

namespace {

using Chunks = std::vector<size_t>;

// A tied chunk 0 of first and last unit, and one chunk for each unit between.
Trace tied(size_t blocks) {
  std::vector<Chunks> units = {{0}};
  for (size_t i = 1; i <= blocks; ++i) units.push_back({i});
  units.push_back({0});
  return Trace(units, blocks + 1);
}

// How many chunks are brought in by `steps` steps with room for `room` chunks. A chunk leaves when its
// gradient is complete.
size_t transfers(const Trace& trace, size_t room, int steps,
                 const std::function<size_t(const Chunks& candidates, size_t now)>& evict) {
  std::set<size_t> present;
  size_t count = 0;
  for (int step = 0; step < steps; ++step)
    for (size_t now = 0; now < trace.operations(); ++now) {
      const size_t unit = trace.unit_of(now);
      for (const size_t chunk : trace.chunks_of(unit)) {
        if (present.contains(chunk)) continue;
        if (present.size() == room) {
          Chunks candidates;
          for (const size_t other : present)
            if (other != chunk) candidates.push_back(other);
          present.erase(evict(candidates, now));
        }
        present.insert(chunk);
        ++count;
      }
      if (now < trace.units()) continue;
      for (const size_t chunk : trace.chunks_of(unit))
        if (trace.first_unit(chunk) == unit) present.erase(chunk);
    }
  return count;
}

size_t by_looking_ahead(const Trace& trace, size_t room) {
  return transfers(trace, room, 3,
                   [&](const Chunks& candidates, size_t now) { return *trace.needed_last(candidates, now); });
}

size_t by_least_recent_use(const Trace& trace, size_t room) {
  const auto age = [&](size_t chunk, size_t now) {
    size_t nearest = trace.operations();
    for (size_t unit = 0; unit < trace.units(); ++unit)
      for (const size_t used : trace.chunks_of(unit))
        if (used == chunk)
          for (const size_t operation : {trace.forward(unit), trace.backward(unit)})
            nearest = std::min(nearest, (now + trace.operations() - operation) % trace.operations());
    return nearest;
  };
  return transfers(trace, room, 3, [&](const Chunks& candidates, size_t now) {
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
  for (const size_t room : {2, 3, 6, 12, 20}) {
    const size_t ahead = by_looking_ahead(trace, room), recent = by_least_recent_use(trace, room);
    EXPECT_LT(ahead, recent) << room;
    RecordProperty("room_" + std::to_string(room),
                   std::to_string(ahead) + " against " + std::to_string(recent));
  }
  EXPECT_EQ(by_looking_ahead(trace, 25), 75u);  // with room for all, once a step
}

TEST(Placement, RefusesOptionsThatContradictEachOther) {
  EXPECT_ERROR(check({.policy = "auto", .offload_optim_frac = 0.5}), WEFT_INVALID_ARGUMENT,
               "for placement_policy=static, but it is auto");
  EXPECT_ERROR(check({.offload_param_frac = 0.5}), WEFT_INVALID_ARGUMENT, "offload_param_frac is 0.5",
               "offload_optim_frac=1");
  EXPECT_ERROR(check({.gpu_margin_mem_ratio = 0.5}), WEFT_INVALID_ARGUMENT, "for placement_policy=auto");
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

}  // namespace weft::gemini

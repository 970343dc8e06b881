// Compares every collective with its definition, on 1, 2 and 3 ranks.
#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"

namespace weft {
namespace {

constexpr auto kAllTypes = {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16,
                            at::kLong,   at::kInt,   at::kChar, at::kByte};

at::Tensor filled(int64_t count, double value, at::ScalarType dtype) {
  return at::full({count}, value, dtype);
}

// Returns values that differ between ranks and places.
at::Tensor ramp(int64_t count, int rank) {
  return at::arange(count, at::kDouble) + 100 * rank;
}

at::Tensor random(at::IntArrayRef shape, int rank, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(17 + rank);
  return at::randn(shape, at::kDouble).to(dtype);
}

// libtorch's recorder is not safe for groups that begin on two threads.
WEFT_RANKS_TEST(Collectives, AreNotRecordedByLibtorch, 2) {
  world.communicator().all_reduce(filled(5, 1, at::kFloat)).wait();
  const std::string trace = c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
  EXPECT_EQ(trace.find("all_reduce"), std::string::npos) << trace.substr(0, 1000);
  EXPECT_EQ(trace.find("gloo"), std::string::npos) << trace.substr(0, 1000);
}

WEFT_RANKS_TEST(AllReduce, SumsInEveryType, 1, 2, 3) {
  const int size = world.size();
  for (const auto dtype : kAllTypes) {
    const at::Tensor tensor = filled(5, world.rank() + 1, dtype);
    world.communicator().all_reduce(tensor).wait();
    EXPECT_TRUE(at::equal(tensor, filled(5, size * (size + 1) / 2, dtype))) << dtype;
  }
}

WEFT_RANKS_TEST(AllReduce, TakesTheLargestAndTheSmallest, 1, 2, 3) {
  const at::Tensor largest = filled(3, world.rank(), at::kFloat), smallest = largest.clone();
  world.communicator().all_reduce(largest, ReduceOp::kMax).wait();
  world.communicator().all_reduce(smallest, ReduceOp::kMin).wait();
  EXPECT_TRUE(at::equal(largest, filled(3, world.size() - 1, at::kFloat)));
  EXPECT_TRUE(at::equal(smallest, filled(3, 0, at::kFloat)));
}

WEFT_RANKS_TEST(AllReduce, OrsBoolsForSumAndAndsThemForMin, 2, 3) {
  const bool here = world.rank() == 0;
  const auto bools = [](bool a, bool b, bool c) {
    return at::tensor({a ? 1 : 0, b ? 1 : 0, c ? 1 : 0}).to(at::kBool);
  };
  const at::Tensor any = bools(here, true, false), all = any.clone();
  world.communicator().all_reduce(any).wait();
  world.communicator().all_reduce(all, ReduceOp::kMin).wait();
  EXPECT_TRUE(at::equal(any, bools(true, true, false)));
  EXPECT_TRUE(at::equal(any.view(at::kByte), at::tensor({1, 1, 0}, at::kByte)))
      << "a bool is 0 or 1 in memory";
  EXPECT_TRUE(at::equal(all, bools(false, true, false)));
}

WEFT_RANKS_TEST(AllReduce, TakesScalarsAndEmptyTensors, 1, 2) {
  const at::Tensor scalar = at::ones({}, at::kDouble), empty = at::empty({0});
  world.communicator().all_reduce(empty).wait();
  world.communicator().all_reduce(scalar).wait();
  EXPECT_EQ(scalar.item<double>(), world.size());
}

WEFT_RANKS_TEST(AllReduce, LeavesTheVersionOfTheTensorAlone, 1, 2) {
  const at::Tensor tensor = at::ones({4}), whole = at::ones({4 * world.size()});
  const auto version = tensor._version(), version_of_whole = whole._version();
  world.communicator().all_reduce(tensor).wait();
  world.communicator().all_gather(whole, tensor).wait();
  world.communicator().reduce_scatter(tensor, whole).wait();
  EXPECT_EQ(tensor._version(), version);
  EXPECT_EQ(whole._version(), version_of_whole);
}

WEFT_RANKS_TEST(AllGather, PutsRanksInOrder, 1, 2, 3) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kBool, at::kShort, at::kComplexFloat}) {
    const at::Tensor input = ramp(4, world.rank()).to(dtype).view({2, 2});
    const at::Tensor output = at::empty({world.size() * 2, 2}, input.options());
    world.communicator().all_gather(output, input).wait();
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_TRUE(at::equal(output.narrow(0, 2 * rank, 2), ramp(4, rank).to(dtype).view({2, 2}))) << dtype;
    }
  }
}

WEFT_RANKS_TEST(AllGather, WorksInPlace, 1, 2, 3) {
  const at::Tensor output = at::zeros({world.size(), 3}, at::kDouble);
  output[world.rank()].copy_(ramp(3, world.rank()));
  world.communicator().all_gather(output, output[world.rank()]).wait();
  for (int rank = 0; rank < world.size(); ++rank) EXPECT_TRUE(at::equal(output[rank], ramp(3, rank)));
}

at::Tensor expected_part(const World& world, int64_t count, at::ScalarType dtype, ReduceOp op) {
  at::Tensor result;
  for (int rank = 0; rank < world.size(); ++rank) {
    const at::Tensor part = random({world.size(), count}, rank, dtype)[world.rank()].to(at::kDouble);
    if (rank == 0) {
      result = part.clone();
    } else {
      result = op == ReduceOp::kSum   ? result + part
               : op == ReduceOp::kMax ? result.maximum(part)
                                      : result.minimum(part);
    }
  }
  return result;
}

WEFT_RANKS_TEST(ReduceScatter, GivesEachRankItsPart, 1, 2, 3, 4) {
  for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    const at::Tensor input = random({world.size(), 7}, world.rank(), at::kDouble), before = input.clone();
    const at::Tensor output = at::empty({7}, at::kDouble);
    world.communicator().reduce_scatter(output, input, op).wait();
    EXPECT_TRUE(test::is_near(output, expected_part(world, 7, at::kDouble, op), test::kKernelFp64));
    EXPECT_TRUE(at::equal(input, before));
  }
}

WEFT_RANKS_TEST(ReduceScatter, SumsInTheOrderOfRanks, 3, 4) {
  const at::Tensor input = random({world.size(), 1000}, world.rank()), output = at::empty({1000});
  world.communicator().reduce_scatter(output, input).wait();
  at::Tensor sum = random({world.size(), 1000}, 0)[world.rank()].clone();
  for (int rank = 1; rank < world.size(); ++rank) sum += random({world.size(), 1000}, rank)[world.rank()];
  EXPECT_TRUE(at::equal(output, sum));
}

WEFT_RANKS_TEST(ReduceScatter, RoundsHalfPrecisionOnce, 2, 4) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor input = random({world.size(), 500}, world.rank(), dtype);
    const at::Tensor output = at::empty({500}, input.options());
    world.communicator().reduce_scatter(output, input).wait();
    const at::Tensor exact = expected_part(world, 500, dtype, ReduceOp::kSum);
    EXPECT_TRUE(test::is_near(output, exact, dtype == at::kHalf ? test::kRoundingFp16 : test::kRoundingBf16));
    EXPECT_LE((output != exact.to(at::kFloat).to(dtype)).sum().item<int64_t>(), 5)
        << "rounded more than once";
  }
}

WEFT_RANKS_TEST(ReduceScatter, WorksInPlace, 1, 2, 3) {
  const at::Tensor input = random({world.size(), 7}, world.rank(), at::kDouble);
  world.communicator().reduce_scatter(input[world.rank()], input).wait();
  EXPECT_TRUE(test::is_near(input[world.rank()], expected_part(world, 7, at::kDouble, ReduceOp::kSum),
                            test::kKernelFp64));
}

WEFT_RANKS_TEST(Broadcast, CopiesFromEachRoot, 1, 2, 3) {
  for (int root = 0; root < world.size(); ++root) {
    const at::Tensor tensor = ramp(6, world.rank()).to(at::kHalf);
    world.communicator().broadcast(tensor, root).wait();
    EXPECT_TRUE(at::equal(tensor, ramp(6, root).to(at::kHalf)));
  }
}

WEFT_RANKS_TEST(AllToAll, ExchangesEqualParts, 1, 2, 3) {
  const int size = world.size();
  const at::Tensor input = ramp(2 * size, world.rank()).view({size, 2}), output = at::empty_like(input);
  world.communicator().all_to_all(output, input).wait();
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_TRUE(at::equal(output[rank], ramp(2 * size, rank).view({size, 2})[world.rank()]));
  }
}

// Rank r sends r + p rows to rank p: none from 0 to 0.
WEFT_RANKS_TEST(AllToAll, ExchangesUnevenParts, 1, 2, 3) {
  const int size = world.size();
  std::vector<int64_t> splits;
  int64_t rows = 0;
  for (int peer = 0; peer < size; ++peer) rows += splits.emplace_back(world.rank() + peer);
  const at::Tensor input = at::full({rows, 3}, world.rank(), at::kLong),
                   output = at::full({rows, 3}, -1, at::kLong);
  world.communicator().all_to_all(output, input, splits, splits).wait();
  int64_t row = 0;
  for (int peer = 0; peer < size; ++peer) {
    EXPECT_TRUE((output.narrow(0, row, splits[peer]) == peer).all().item<bool>());
    row += splits[peer];
  }
}

WEFT_RANKS_TEST(SendAndReceive, MatchByTagAndNotByTime, 2) {
  const Communicator& group = world.communicator();
  if (world.rank() == 0) {
    Work first = group.send(filled(2, 1, at::kFloat), 1, 7),
         second = group.send(filled(2, 2, at::kFloat), 1, 8);
    first.wait();
    second.wait();
  } else {
    const at::Tensor one = at::zeros({2}), two = at::zeros({2});
    Work second = group.recv(two, 0, 8);
    second.wait();
    group.recv(one, 0, 7).wait();
    EXPECT_TRUE(at::equal(one, filled(2, 1, at::kFloat)));
    EXPECT_TRUE(at::equal(two, filled(2, 2, at::kFloat)));
  }
}

// The largest tags of a caller do not collide with the tags of messages inside collectives.
// Also where not every rank has something to send.
WEFT_RANKS_TEST(SendAndReceive, AreExchangedAroundACircleOfAnyRanks, 2, 3, 4) {
  const int size = world.size(), to = (world.rank() + size - 1) % size, from = (world.rank() + 1) % size;
  const Communicator& group = world.communicator();
  for (const int64_t shorter : {0, 3}) {
    const auto count = [&](int rank) { return rank == 0 ? 3 - shorter : int64_t{3}; };
    const at::Tensor received = at::zeros({count(from)});
    group.exchange(at::full({count(world.rank())}, world.rank() + 1.0), to, received, from, 5).wait();
    EXPECT_TRUE(at::equal(received, at::full({count(from)}, from + 1.0)));
  }
}

WEFT_RANKS_TEST(SendAndReceive, DoNotMeetTheMessagesOfCollectives, 2) {
  const Communicator& group = world.communicator();
  const int peer = 1 - world.rank();
  const at::Tensor received = at::zeros({1}), gathered = at::zeros({2});
  Work receive = group.recv(received, peer, (1u << 30) - 1);
  Work gather = group.all_gather(gathered, filled(1, world.rank(), at::kFloat));
  Work send = group.send(filled(1, 5, at::kFloat), peer, (1u << 30) - 1);
  gather.wait();
  receive.wait();
  send.wait();
  EXPECT_EQ(received.item<float>(), 5);
  EXPECT_TRUE(at::equal(gathered, at::tensor({0.f, 1.f})));
}

}  // namespace
}  // namespace weft

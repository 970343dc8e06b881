// Collectives on a stream of their own, between ranks that are threads of this process with a device each.
#include <c10/core/DeviceGuard.h>

#include <chrono>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "sim/device_work.hpp"
#include "sim/sim_test.hpp"
#include "sim/small_model.hpp"

namespace weft::sim {
namespace {

using Tensors = std::vector<at::Tensor>;
using Backend = c10::intrusive_ptr<c10d::Backend>;
using std::chrono::milliseconds;

struct Rank {
  int number, count;
  c10::Device place;
  Backend group;

  at::TensorOptions floats() const { return at::TensorOptions(place).dtype(at::kFloat); }
  at::Tensor filled(int64_t elements, double value) const { return at::full({elements}, value, floats()); }
  c10::Stream stream() const { return current_stream(place.index()); }
};

class Collectives : public SimTest {
 protected:
  // Calls `body` on each of `count` ranks.
  template <class Body>
  static void on_ranks(int count, Body body, milliseconds timeout = milliseconds(20'000)) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::thread> threads;
    for (int number = 0; number < count; ++number)
      threads.emplace_back([&, number] {
        const c10::Device place = device(static_cast<c10::DeviceIndex>(number));
        const c10::DeviceGuard guard(place);
        try {
          const Backend group = make_backend(store, number, count, timeout);
          reset_counters(place.index());
          body(Rank{number, count, place, group});
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << number << ": " << error.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
};

void expect_all(const at::Tensor& tensor, double value) {
  EXPECT_TRUE(tensor.eq(value).all().item<bool>()) << tensor.cpu();
}

// Waits for what the other rank reaches without this one.
void expect_soon(std::promise<void>& event) {
  EXPECT_EQ(event.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST_F(Collectives, ComputeOnAllRanks) {
  on_ranks(3, [](const Rank& rank) {
    Tensors sum{rank.filled(1000, rank.number + 1)};
    rank.group->allreduce(sum)->wait();
    expect_all(sum[0], 6);
    Tensors half{rank.filled(64, rank.number + 1).to(at::kBFloat16)};
    rank.group->allreduce(half)->wait();
    expect_all(half[0], 6);
    Tensors sent{rank.filled(10, rank.number)};
    c10d::BroadcastOptions from_2;
    from_2.rootRank = 2;
    rank.group->broadcast(sent, from_2)->wait();
    expect_all(sent[0], 2);
    at::Tensor own = rank.filled(5, rank.number), gathered = rank.filled(15, -1);
    rank.group->_allgather_base(gathered, own)->wait();
    EXPECT_TRUE(at::equal(gathered.cpu(), at::arange(3, at::kFloat).repeat_interleave(5)));
    rank.group->_reduce_scatter_base(own, gathered)->wait();
    expect_all(own, 3.0 * rank.number);
    at::Tensor rows = rank.filled(3, rank.number), columns = rank.filled(3, -1);
    std::vector<int64_t> equal;
    rank.group->alltoall_base(columns, rows, equal, equal)->wait();
    EXPECT_TRUE(at::equal(columns.cpu(), at::arange(3, at::kFloat)));
    rank.group->barrier()->wait();
    EXPECT_EQ(counters(rank.place.index()).collectives, 7);
  });
}

// Each rank's part is the sum in the order of ranks, whatever arrives first.
TEST_F(Collectives, ReduceAndScatterInTheOrderOfRanks) {
  const at::Tensor parts = at::randn({4, 4, 33}) * 1e4;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    on_ranks(4, [&](const Rank& rank) {
      at::Tensor input = parts[rank.number].to(dtype).to(rank.place);
      at::Tensor output = input[rank.number];  // in place
      rank.group->_reduce_scatter_base(output, input)->wait();
      at::Tensor expected = parts[0][rank.number].to(dtype).to(at::kFloat);
      for (int other = 1; other < rank.count; ++other)
        expected = expected + parts[other][rank.number].to(dtype).to(at::kFloat);
      EXPECT_TRUE(at::equal(output.cpu(), expected.to(dtype)));
    });
}

// libtorch's flight recorder crashes or hangs when groups of several threads begin at once.
TEST_F(Collectives, AreNotRecordedByTheProcess) {
  on_ranks(2, [](const Rank& rank) { rank.group->barrier()->wait(); });
  const std::string trace = c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
  EXPECT_EQ(trace.find("gloo"), std::string::npos) << trace.substr(0, 1000);
}

TEST_F(Collectives, DoNotMakeTheHostWait) {
  std::promise<void> went_on;
  on_ranks(2, [&](const Rank& rank) {
    Tensors tensor{rank.filled(1000, 1)};
    if (rank.number == 1) expect_soon(went_on);
    const auto first = rank.group->allreduce(tensor), second = rank.group->allreduce(tensor);
    second->wait();
    if (rank.number == 0) went_on.set_value();
    EXPECT_EQ(counters(rank.place.index()).host_waits, 0);
    expect_all(tensor[0], 4);
    EXPECT_TRUE(first->isSuccess());
  });
}

TEST_F(Collectives, ReportAUseThatDoesNotWait) {
  on_ranks(2, [](const Rank& rank) {
    Tensors tensor{rank.filled(1000, 1)};
    const auto work = rank.group->allreduce(tensor);
    const at::Tensor early = tensor[0] + 1;
    work->wait();
  });
  expect_reports({"aten::add.out reads on sim:", "aten::add.out reads on sim:"});
}

TEST_F(Collectives, ReportAGatherThatIsUsedWithoutItsEvent) {
  for (const bool waits : {true, false}) {
    on_ranks(2, [&](const Rank& rank) {
      at::Tensor shard = rank.filled(100, rank.number), whole = at::empty({200}, rank.floats());
      const auto work = rank.group->_allgather_base(whole, shard);
      if (waits) work->wait();
      const at::Tensor used = whole * 2;
      work->wait();
    });
    if (waits) expect_reports({});
  }
  expect_reports({"without waiting for all_gather on sim:", "without waiting for all_gather on sim:"});
}

TEST_F(Collectives, RefuseAFreedBuffer) {
  on_ranks(1, [](const Rank& rank) {
    Tensors tensor{rank.filled(256, 1)};
    resize_storage(tensor[0].storage(), 0);
    expect_throw(
        "all_reduce: a tensor of shape [256] needs 1024 bytes of memory, but its storage has 0: it was "
        "freed or never allocated",
        [&] { rank.group->allreduce(tensor); });
  });
}

TEST_F(Collectives, ReportABufferThatIsFreedWhileItIsReduced) {
  const auto reduce_and_free = [](const Rank& rank, bool waits) {
    Tensors tensor{rank.filled(256, 1)};
    const auto work = rank.group->allreduce(tensor);
    if (waits) work->wait();
    resize_storage(tensor[0].storage(), 0);
    work->wait();
  };
  on_ranks(2, [&](const Rank& rank) { reduce_and_free(rank, true); });
  expect_reports({});
  on_ranks(2, [&](const Rank& rank) { reduce_and_free(rank, false); });
  const std::string freed = "memory of 1024 bytes is freed on sim:";
  expect_reports({freed, freed});
}

TEST_F(Collectives, ReportWorkThatIsDroppedBeforeItIsDone) {
  on_ranks(2, [](const Rank& rank) {
    Tensors tensor{rank.filled(256, 1)};
    rank.group->allreduce(tensor);
  });
  const std::string freed = "memory of 1024 bytes is freed on sim:";
  expect_reports({freed, freed});
}

TEST_F(Collectives, OrderTheStreamOfTheirFuture) {
  on_ranks(2, [](const Rank& rank) {
    Tensors tensor{rank.filled(256, 1)};
    rank.group->allreduce(tensor)->getFuture()->wait();
    expect_all(tensor[0], 2);
  });
}

TEST_F(Collectives, AreOneLaunchForAGroup) {
  on_ranks(2, [](const Rank& rank) {
    Tensors wholes, shards;
    for (int i = 0; i < 3; ++i) {
      wholes.push_back(rank.filled(2 * (i + 1), -1));
      shards.push_back(rank.filled(i + 1, rank.number));
    }
    reset_counters(rank.place.index());
    rank.group->allgather_into_tensor_coalesced(wholes, shards)->wait();
    EXPECT_EQ(counters(rank.place.index()).launches, 1);
    EXPECT_EQ(counters(rank.place.index()).collectives, 1);
    for (const at::Tensor& whole : wholes) expect_all(whole.sum(), whole.numel() / 2.0);
  });
}

// The n-th message is the n-th that is received, whatever its tag.
TEST_F(Collectives, SendMessagesInOrder) {
  on_ranks(2, [](const Rank& rank) {
    Tensors first{rank.filled(8, 1)}, second{rank.filled(8, 2)};
    if (rank.number == 0) {
      rank.group->send(first, 1, /*tag=*/7)->wait();
      rank.group->send(second, 1, 8)->wait();
    } else {
      Tensors one{rank.filled(8, 0)}, two{rank.filled(8, 0)};
      rank.group->recv(one, 0, 8)->wait();
      rank.group->recv(two, 0, 7)->wait();
      expect_all(one[0], 1);
      expect_all(two[0], 2);
    }
  });
}

// Both ranks send before they receive, which only a group does at once.
TEST_F(Collectives, ExchangeMessagesInAGroup) {
  on_ranks(2, [](const Rank& rank) {
    Tensors mine{rank.filled(1 << 20, rank.number)}, theirs{rank.filled(1 << 20, -1)};
    const int other = 1 - rank.number;
    rank.group->startCoalescing();
    rank.group->send(mine, other, 0);
    rank.group->recv(theirs, other, 0);
    rank.group->endCoalescing()->wait();
    expect_all(theirs[0], other);
  });
}

TEST_F(Collectives, NameTheOneThatFailed) {
  std::promise<void> failed;
  on_ranks(
      2,
      [&](const Rank& rank) {
        if (rank.number == 1) return expect_soon(failed);
        Tensors tensor{rank.filled(256, 1)};
        const auto work = rank.group->allreduce(tensor);
        work->wait();
        expect_throw("sim: all_reduce failed: ", [&] { tensor[0].add(1); });
        EXPECT_TRUE(work->isCompleted());
        EXPECT_FALSE(work->isSuccess());
        EXPECT_TRUE(work->exception() != nullptr);
        failed.set_value();
      },
      milliseconds(500));
}

TEST_F(Collectives, FailWhenTheyAreAborted) {
  std::promise<void> aborted;
  on_ranks(2, [&](const Rank& rank) {
    if (rank.number == 1) return expect_soon(aborted);
    Tensors tensor{rank.filled(256, 1)};
    const auto work = rank.group->allreduce(tensor), next = rank.group->allreduce(tensor);
    EXPECT_FALSE(work->isCompleted());
    rank.group->abort();
    work->wait();
    next->wait();
    expect_throw("sim: all_reduce failed: aborted", [&] { tensor[0].add(1); });
    EXPECT_FALSE(next->isSuccess());
    expect_throw("not started, the communicator was aborted before", [&] { rank.group->allreduce(tensor); });
    aborted.set_value();
  });
}

// A step with data parallelism, whose reductions begin while backward goes on. Returns its simulated time.
double parallel_step(const Rank& rank, SmallModel& model, bool overlaps, bool forgets_a_wait = false) {
  const auto [ids, labels] = SmallModel::batch(rank.place);
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  const auto reduce = [&](const at::Tensor& gradient) {
    Tensors list{gradient};
    works.push_back(rank.group->allreduce(list));
  };
  synchronise(rank.place.index());
  const double begin = host_time(rank.place.index());
  if (overlaps) model.on_gradient(reduce);
  model.loss(ids, labels).backward();
  if (!overlaps)
    for (const at::Tensor& gradient : model.gradients()) reduce(gradient);
  const auto forgotten = works.back();
  if (forgets_a_wait) works.pop_back();
  for (const auto& work : works) work->wait();
  for (at::Tensor& parameter : model.parameters) parameter.mutable_grad().mul_(1.0 / rank.count);
  if (forgets_a_wait) forgotten->wait();
  model.step(0.1);
  synchronise(rank.place.index());
  return host_time(rank.place.index()) - begin;
}

// All ranks have the same batch. The sum of 2 or 4 equal numbers is rounded to its exact value in every
// order, so the averages are the gradients of one process, bit for bit.
TEST_F(Collectives, TrainToTheBitsOfOneRank) {
  SmallModel one(at::kCPU);
  const auto [ids, labels] = SmallModel::batch(at::kCPU);
  for (int step = 0; step < 2; ++step) {
    one.loss(ids, labels).backward();
    one.step(0.1);
  }
  for (const int count : {2, 4})
    on_ranks(count, [&](const Rank& rank) {
      SmallModel model(rank.place);
      for (int step = 0; step < 2; ++step) parallel_step(rank, model, /*overlaps=*/true);
      EXPECT_TRUE(same_values(one.parameters, model.parameters));
    });
}

TEST_F(Collectives, OverlapWithBackward) {
  Costs slow_link;
  slow_link.bus_bytes_per_us = 1e3;
  set_costs(slow_link);
  on_ranks(2, [](const Rank& rank) {
    SmallModel serial(rank.place), overlapped(rank.place);
    const double serial_time = parallel_step(rank, serial, false);
    EXPECT_LT(parallel_step(rank, overlapped, true), 0.9 * serial_time);
  });
  set_costs({});
}

TEST_F(Collectives, ReportOneForgottenWaitOfAStep) {
  on_ranks(2, [](const Rank& rank) {
    SmallModel model(rank.place);
    parallel_step(rank, model, true, /*forgets_a_wait=*/true);
  });
  const std::string found = "without waiting for all_reduce on sim:";
  const std::vector<std::string> lines = take_reports();
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) EXPECT_NE(line.find(found), std::string::npos) << line;
}

}  // namespace
}  // namespace weft::sim

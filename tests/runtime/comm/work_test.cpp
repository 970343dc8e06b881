// Several collectives at once, on one or more groups, from one or more threads.
#include <ATen/ATen.h>

#include <thread>

#include "support/launch_ranks.hpp"

namespace weft {
namespace {

at::Tensor filled(int64_t count, double value) {
  return at::full({count}, value, at::kFloat);
}

WEFT_RANKS_TEST(Work, MayBeWaitedForInAnyOrder, 2, 3) {
  const Communicator& group = world.communicator();
  const int size = world.size();
  constexpr int kCount = 40;
  std::vector<at::Tensor> tensors;
  std::vector<Work> works;
  for (int i = 0; i < kCount; ++i) {
    const int64_t count = 1 + 997 * (i % 5);
    if (i % 3 == 0) {
      tensors.push_back(filled(count, i));
      works.push_back(group.all_reduce(tensors.back()));
    } else if (i % 3 == 1) {
      tensors.push_back(at::empty({count * size}));
      works.push_back(group.all_gather(tensors.back(), filled(count, i * size)));
    } else {
      tensors.push_back(at::empty({count}));
      works.push_back(group.reduce_scatter(tensors.back(), filled(count * size, i)));
    }
  }
  for (int i = kCount - 1; i >= 0; --i) {
    works[i].wait();
    EXPECT_TRUE((tensors[i] == i * size).all().item<bool>()) << i;
  }
}

WEFT_RANKS_TEST(Work, KeepsItsTensorsAlive, 2) {
  std::vector<Work> works;
  const at::Tensor output = at::empty({2 * 100'000});
  works.push_back(world.communicator().all_reduce(at::ones({100'000})));
  works.push_back(world.communicator().all_gather(output, at::ones({100'000})));
  for (Work& work : works) work.wait();
  EXPECT_TRUE((output == 1).all().item<bool>());
}

// Memory can be freed after wait(), although the threads of the backend keep their tensors for a while.
WEFT_RANKS_TEST(Work, HoldsNoMemoryWhenItIsOver, 2) {
  const Communicator& group = world.communicator();
  for (int i = 0; i < 500; ++i) {
    const at::Tensor reduced = at::ones({8}), sent = at::ones({8});
    group.all_reduce(reduced).wait();
    group.broadcast(sent, i % 2).wait();
    ASSERT_EQ(reduced.storage().use_count(), 1) << i;
    ASSERT_EQ(sent.storage().use_count(), 1) << i;
  }
}

WEFT_RANKS_TEST(Work, FinishesOnceWhenSeveralThreadsWait, 2) {
  const at::Tensor output = at::empty({50'000}), input = at::ones({100'000});
  Work work = world.communicator().reduce_scatter(output, input);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([work, &output]() mutable {
      work.wait();
      EXPECT_TRUE((output == 2).all().item<bool>());
    });
  }
  for (std::thread& thread : threads) thread.join();
  work.wait();
  EXPECT_TRUE((output == 2).all().item<bool>()) << "summed again";
}

// A message so large that the socket cannot hold it before the other side receives.
WEFT_RANKS_TEST(Work, ContinuesWhenItIsDropped, 2) {
  constexpr int64_t kCount = 4'000'000;
  const Communicator& group = world.communicator();
  if (world.rank() == 0) {
    for (int tag = 0; tag < 3; ++tag) group.send(filled(kCount, tag), 1, tag);
    group.all_reduce(at::ones({kCount}));
    group.barrier();
  } else {
    const at::Tensor tensor = at::ones({kCount});
    Work reduce = group.all_reduce(tensor);
    for (int tag = 2; tag >= 0; --tag) {
      const at::Tensor received = at::empty({kCount});
      group.recv(received, 0, tag).wait();
      EXPECT_TRUE((received == tag).all().item<bool>());
    }
    reduce.wait();
    EXPECT_TRUE((tensor == 2).all().item<bool>());
    group.barrier();
  }
}

// Rank 1 never receives. The end of the process must not wait for it: a rank that does not end fails the
// test.
WEFT_RANKS_TEST(Work, DoesNotKeepARankFromLeavingIfNobodyTakesIt, 2) {
  if (world.rank() == 0) world.communicator().send(at::ones({4'000'000}), 1, 0);
  world.block_all();
}

WEFT_RANKS_TEST(Groups, WorkAtOnceFromThreadsOfTheirOwn, 2, 3) {
  constexpr int kGroups = 3, kRounds = 30;
  std::vector<Communicator> groups;
  std::vector<uint32_t> everyone;
  for (int rank = 0; rank < world.size(); ++rank) everyone.push_back(rank);
  for (int i = 0; i < kGroups; ++i) groups.push_back(world.communicator().subset(everyone));
  std::vector<std::thread> threads;
  for (int i = 0; i < kGroups; ++i) {
    threads.emplace_back([&, group = groups[i], i] {
      for (int round = 0; round < kRounds; ++round) {
        const at::Tensor tensor = filled(1 + 1000 * i, round),
                         output = at::empty({tensor.numel() * world.size()});
        Work gather = group.all_gather(output, tensor.clone());
        group.all_reduce(tensor).wait();
        gather.wait();
        EXPECT_TRUE((tensor == round * world.size()).all().item<bool>());
        EXPECT_TRUE((output == round).all().item<bool>());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Threads may share a group if ranks agree on the order. Messages with different tags need no order.
WEFT_RANKS_TEST(Groups, MayBeSharedByThreads, 2) {
  const Communicator& group = world.communicator();
  const int peer = 1 - world.rank();
  std::vector<std::thread> threads;
  for (uint32_t tag = 0; tag < 4; ++tag) {
    threads.emplace_back([&group, peer, tag] {
      for (int round = 0; round < 20; ++round) {
        const at::Tensor received = at::empty({1000});
        Work receive = group.recv(received, peer, tag);
        group.send(filled(1000, 100.0 * tag + round), peer, tag).wait();
        receive.wait();
        EXPECT_TRUE((received == 100.0 * tag + round).all().item<bool>());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft

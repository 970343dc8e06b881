// Compares the byte counters with formulas, and with the bytes that the kernel counts for the sockets.
#include <ATen/ATen.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>

#include "support/launch_ranks.hpp"

namespace weft {
namespace {

using Bytes = std::map<std::string, int64_t>;

// Returns the bytes since the last call.
class Counted {
 public:
  Bytes operator()() {
    const Bytes now = communicated_bytes();
    Bytes difference;
    for (const auto& [name, bytes] : now) {
      if (bytes != before_[name]) difference[name] = bytes - before_[name];
    }
    before_ = now;
    return difference;
  }

 private:
  Bytes before_ = communicated_bytes();
};

WEFT_RANKS_TEST(Bytes, FollowTheFormulas, 2, 4) {
  const Communicator& group = world.communicator();
  const int size = world.size();
  const at::Tensor whole = at::ones({1200}), part = at::ones({1200 / size});
  Counted counted;
  group.all_reduce(whole).wait();
  EXPECT_EQ(counted(), (Bytes{{"all_reduce", 2 * 4800 * (size - 1) / size}}));
  group.all_gather(whole, part).wait();
  EXPECT_EQ(counted(), (Bytes{{"all_gather", 4800 * (size - 1) / size}}));
  group.reduce_scatter(part, whole).wait();
  EXPECT_EQ(counted(), (Bytes{{"reduce_scatter", 4800 * (size - 1) / size}}));
  group.broadcast(whole, 1).wait();
  EXPECT_EQ(counted(), world.rank() == 1 ? (Bytes{{"broadcast", 4800}}) : Bytes{});
  group.all_to_all(at::empty({1200}), whole).wait();
  EXPECT_EQ(counted(), (Bytes{{"all_to_all", 4800 * (size - 1) / size}}));
  if (world.rank() == 0) group.send(whole, 1, 0).wait();
  if (world.rank() == 1) group.recv(whole, 0, 0).wait();
  EXPECT_EQ(counted(), world.rank() == 0 ? (Bytes{{"send", 4800}}) : Bytes{});
  group.all_reduce(at::ones({size}, at::kBFloat16)).wait();
  EXPECT_EQ(counted(), (Bytes{{"all_reduce", 4 * (size - 1)}})) << "two bytes an element";
}

WEFT_RANKS_TEST(Bytes, AreCountedApartForControl, 2) {
  const Communicator& group = world.communicator();
  const at::Tensor pair = at::ones({2});
  Counted counted;
  group.all_reduce(pair, ReduceOp::kMax, true).wait();
  EXPECT_EQ(counted(), (Bytes{{"control", 8}}));
  group.all_gather(pair, at::ones({1}), true).wait();
  EXPECT_EQ(counted(), (Bytes{{"control", 4}}));
  group.gather_text("abc");
  EXPECT_EQ(counted(), (Bytes{{"control", 8 + 3}}));
  group.broadcast_text("abc", 0);
  EXPECT_EQ(counted(), world.rank() == 0 ? (Bytes{{"control", 8 + 3}}) : Bytes{});
  group.barrier();
  EXPECT_EQ(counted(), Bytes{});
}

TEST(Bytes, AreNoneForOneRank) {
  const Communicator group = launch().communicator();
  const at::Tensor tensor = at::ones({8}), other = at::ones({8});
  Counted counted;
  group.all_reduce(tensor).wait();
  group.all_gather(other, tensor).wait();
  group.reduce_scatter(other, tensor).wait();
  group.broadcast(tensor, 0).wait();
  group.all_to_all(other, tensor).wait();
  EXPECT_EQ(counted(), Bytes{});
}

// Returns the bytes that the TCP sockets of this process have sent.
int64_t sent_by_kernel() {
  int64_t sent = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    const int descriptor = std::stoi(entry.path().filename());
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    sent += static_cast<int64_t>(info.tcpi_bytes_sent - info.tcpi_bytes_retrans);
  }
  return sent;
}

WEFT_RANKS_TEST(Bytes, AgreeWithTheKernel, 2, 3) {
  const Communicator& group = world.communicator();
  const int size = world.size();
  const at::Tensor part = at::ones({1 << 20}), whole = at::ones({size << 20});
  const std::vector<std::pair<std::string, std::function<Work()>>> collectives = {
      {"all_reduce", [&] { return group.all_reduce(whole); }},
      {"all_gather", [&] { return group.all_gather(whole, part); }},
      {"reduce_scatter", [&] { return group.reduce_scatter(part, whole); }},
      {"all_to_all", [&] { return group.all_to_all(at::empty_like(whole), whole); }},
  };
  for (const auto& [name, collective] : collectives) {
    Counted counted;
    const int64_t before = sent_by_kernel();
    collective().wait();
    group.barrier();
    const auto sent = static_cast<double>(sent_by_kernel() - before);
    const auto expected = static_cast<double>(counted()[name]);
    EXPECT_NEAR(sent / expected, 1, 0.05) << name << " sent " << sent << ", counted " << expected;
  }
}

}  // namespace
}  // namespace weft

// World: coordinates, groups along axes, texts, joining and leaving.
#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/error.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/launch_ranks.hpp"

namespace weft {
namespace {

using Text = std::vector<std::string>;

int sum_of_ranks(const Communicator& group, int rank) {
  const at::Tensor sum = at::full({1}, rank, at::kLong);
  group.all_reduce(sum).wait();
  return static_cast<int>(sum.item<int64_t>());
}

TEST(Launch, WithoutAnEnvironmentIsOneRankWithoutNetwork) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = descriptors();
  const World world = launch();
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_size(), 1);
  EXPECT_TRUE(world.is_master() && world.is_node_master());
  world.block_all();
  EXPECT_EQ(world.communicator().gather_text("one"), Text{"one"});
  EXPECT_EQ(world.communicator().broadcast_text("one", 0), "one");
  EXPECT_EQ(world.communicator().subset({0}).size(), 1);
  EXPECT_EQ(world.along({1, 1}, {0}).size(), 1);
  EXPECT_EQ(descriptors(), before);
}

WEFT_RANKS_TEST(World, KnowsTheLastAxisAsTheFastest, 4) {
  const int rank = world.rank();
  EXPECT_EQ(world.coordinate({2, 2}), (std::vector<int>{rank / 2, rank % 2}));
  EXPECT_EQ(world.coordinate({4, 1}), (std::vector<int>{rank, 0}));
  EXPECT_EQ(world.local_rank(), rank);
  EXPECT_EQ(world.local_size(), 4);
}

WEFT_RANKS_TEST(World, MakesGroupsAlongAxes, 4) {
  const int rank = world.rank(), row = rank / 2, column = rank % 2;
  const Communicator rows = world.along({2, 2}, {1}), columns = world.along({2, 2}, {0});
  EXPECT_EQ(rows.rank(), column);
  EXPECT_EQ(columns.rank(), row);
  EXPECT_EQ(sum_of_ranks(rows, rank), row == 0 ? 0 + 1 : 2 + 3);
  EXPECT_EQ(sum_of_ranks(columns, rank), column == 0 ? 0 + 2 : 1 + 3);
  EXPECT_EQ(&world.along({2, 2}, {0, 1}).name(), &world.communicator().name());
  EXPECT_EQ(world.along({2, 2}, {}).size(), 1);
  // The same ranks on another mesh form the same group.
  EXPECT_EQ(&world.along({2, 1, 2}, {1, 2}).name(), &rows.name());
}

WEFT_RANKS_TEST(World, HandlesAThirdAxis, 8) {
  const std::vector<int> sizes = {2, 2, 2}, own = world.coordinate(sizes);
  const Communicator group = world.along(sizes, {0, 2});
  EXPECT_EQ(group.size(), 4);
  EXPECT_EQ(group.rank(), own[0] * 2 + own[2]);
  EXPECT_EQ(sum_of_ranks(group, world.rank()), own[1] == 0 ? 0 + 1 + 4 + 5 : 2 + 3 + 6 + 7);
}

WEFT_RANKS_TEST(Subset, NumbersMembersAsGiven, 3) {
  const Communicator group = world.communicator().subset({2, 0});
  if (world.rank() == 1) {
    EXPECT_FALSE(group);
  } else {
    EXPECT_EQ(group.rank(), world.rank() == 2 ? 0 : 1);
    EXPECT_EQ(group.rank_in_job(0), 2);
    EXPECT_EQ(group.rank_in_job(1), 0);
    EXPECT_THROW(group.rank_in_job(2), Error);
    EXPECT_EQ(sum_of_ranks(group, world.rank()), 2);
    const Communicator second = group.subset({1});
    EXPECT_EQ(static_cast<bool>(second), world.rank() == 0) << "a subset counts from its parent";
  }
  const Communicator again = world.communicator().subset({2, 0});
  EXPECT_EQ(static_cast<bool>(again), world.rank() != 1);
  if (again) EXPECT_NE(again.name(), group.name());
}

WEFT_RANKS_TEST(Communicator, MovesTextsOfAnyLength, 1, 2, 3) {
  const Communicator& group = world.communicator();
  const std::string own(3 * world.rank(), 'a' + world.rank());
  const Text texts = group.gather_text(own);
  ASSERT_EQ(static_cast<int>(texts.size()), world.size());
  for (int rank = 0; rank < world.size(); ++rank) EXPECT_EQ(texts[rank], std::string(3 * rank, 'a' + rank));
  EXPECT_EQ(group.gather_text(""), Text(world.size(), ""));
  EXPECT_EQ(group.broadcast_text(world.rank() == 0 ? "from 0" : "not this", 0), "from 0");
  EXPECT_EQ(group.broadcast_text("", 0), "");
}

TEST(World, LetsTheExecutorGoFirst) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_order_" + std::to_string(getpid()));
  for (const int executor : {0, 2}) {
    test::on_ranks({3}, [&](World& world) {
      world.priority_execution([&] { std::ofstream(path, std::ios::app) << world.rank() << "\n"; }, executor);
      std::ifstream file(path);
      int first = -1, line = -1, count = 0;
      while (file >> line) first = count++ == 0 ? line : first;
      EXPECT_EQ(first, executor);
      EXPECT_EQ(count, 3) << "returned before all were done";
    });
    std::filesystem::remove(path);
  }
}

WEFT_RANKS_TEST(World, TellsTheOthersWhenTheExecutorFails, 3) {
  const auto action = [&] {
    EXPECT_EQ(world.rank(), 1);
    throw std::runtime_error("no disk");
  };
  try {
    world.priority_execution(action, 1);
    ADD_FAILURE() << "did not throw";
  } catch (const Error& error) {
    EXPECT_NE(world.rank(), 1);
    EXPECT_EQ(error.status(), WEFT_ABORTED);
    EXPECT_EQ(std::string(error.what()), "rank 1 failed: no disk");
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(world.rank(), 1);
  }
}

TEST(World, PrintsOnTheMasterAlone) {
  const auto outcomes = test::run_ranks(2, [](int) { launch().print_on_master("a line"); });
  EXPECT_EQ(outcomes[0].output, "a line\n");
  EXPECT_EQ(outcomes[1].output, "");
}

WEFT_RANKS_TEST(World, IsTheSameWhenCopied, 2) {
  const World copy = world;
  world = World();
  EXPECT_EQ(sum_of_ranks(copy.communicator(), 1), 2);
}

// Each rank in turn leaves last.
TEST(World, MayBeLeftInAnyOrder) {
  for (int last = 0; last < 3; ++last) {
    test::on_ranks({3}, [&](World& world) {
      const Communicator group = world.along({3, 1}, {0}), pair = world.communicator().subset({0, 1});
      EXPECT_EQ(sum_of_ranks(group, 1), 3);
      world.communicator().broadcast(at::ones({1000}), 0).wait();
      if (world.rank() != last) return;
      for (int rank = 0; rank < 3; ++rank) {
        if (rank == last) continue;
        const at::Tensor tensor = at::ones({1});
        EXPECT_THROW(world.communicator().recv(tensor, rank, 0).wait(), Error) << "the others have left";
      }
    });
  }
}

// launch() with explicit ranks finds out local_rank and local_size.
TEST(Launch, TakesExplicitRanks) {
  const auto outcomes = test::run_ranks(3, [](int rank) {
    const int port = std::stoi(std::getenv("MASTER_PORT"));
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
      unsetenv(name);
    }
    const World world = launch(2 - rank == 2 ? 0 : rank, 3, "127.0.0.1", port, std::chrono::seconds(20));
    EXPECT_EQ(world.local_rank(), world.rank());
    EXPECT_EQ(world.local_size(), 3);
    EXPECT_EQ(sum_of_ranks(world.communicator(), world.rank()), 3);
  });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.passed) << outcome.output;
}

// Returns the addresses on which this host listens at a port, as the kernel writes them: "0100007F" is
// 127.0.0.1.
std::vector<std::string> listening_at(int port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // the names of the columns
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      const size_t colon = local.find(':');
      constexpr const char* kListening = "0A";
      if (state == kListening && std::stoi(local.substr(colon + 1), nullptr, 16) == port)
        found.push_back(local.substr(0, colon));
    }
  }
  return found;
}

// c10d's store has no password: only who can connect to the address of the ranks reaches it.
TEST(Launch, TheStoreListensAtTheAddressOfTheRanksAlone) {
  // Bound and not listening: nobody else gets the port, and rank 0 can bind it.
  const int reserved = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(setsockopt(reserved, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
  ASSERT_EQ(bind(reserved, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(reserved, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  const auto outcomes = test::run_ranks(2, [port](int rank) {
    unsetenv("WEFT_MASTER_LISTEN_FD");
    const World world = launch(rank, 2, "127.0.0.1", port, std::chrono::seconds(20));
    const std::vector<std::string> found = listening_at(port);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0], "0100007F");
    world.block_all();
  });
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.passed) << outcome.output;
  close(reserved);
}

}  // namespace
}  // namespace weft

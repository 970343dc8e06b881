// Ranks that die, hang, never join or disagree. The others soon end with a message.
#include <ATen/ATen.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/error.hpp>

#include <chrono>
#include <thread>

#include "comm/agreement.hpp"
#include "support/launch_ranks.hpp"

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// Short enough to wait for.
constexpr milliseconds kShort{2'000};
// Long enough for ranks to start and meet where ten such tests and a compiler share two cores; 2 s are not.
constexpr milliseconds kMeeting{8'000};

std::string error_of(const std::function<void()>& call, weft_status status = WEFT_UNAVAILABLE) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    return error.what();
  } catch (const std::exception& error) {  // reported here, so that the thread does not end the process
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "did not fail";
  return "";
}

void expect_says(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text << "\nlacks: " << words;
}
void expect_passed(const test::RankOutcome& outcome) {
  EXPECT_TRUE(outcome.passed) << outcome.how << outcome.output;
}

// Runs on rank 0, with rank 1.
void run(const std::string& operation, const Communicator& group, const at::Tensor& part,
         const at::Tensor& whole) {
  if (operation == "all_reduce") group.all_reduce(part).wait();
  if (operation == "all_gather") group.all_gather(whole, part).wait();
  if (operation == "reduce_scatter") group.reduce_scatter(part, whole).wait();
  if (operation == "all_to_all") group.all_to_all(at::empty_like(whole), whole).wait();
  if (operation == "send") group.send(part, 1, 3).wait();
  if (operation == "recv") group.recv(part, 1, 3).wait();
  if (operation == "broadcast") group.broadcast(part, 1).wait();
  if (operation == "barrier") group.barrier();
}

TEST(DeadPeer, EndsTheWaitOfTheOthers) {
  const auto outcomes = test::run_ranks(3, [](int rank) {
    const World world = launch(seconds(30));
    const Communicator& group = world.communicator();
    if (rank == 2) {
      group.barrier();
      raise(SIGKILL);
    }
    group.barrier();
    const at::Tensor tensor = at::ones({1000}), whole = at::empty({3000});
    const auto begin = Clock::now();
    const std::string text = error_of([&] { group.all_reduce(tensor).wait(); });
    expect_says(text, "communicator \"all\": rank " + std::to_string(rank) +
                          " of 3: all_reduce of 4000 bytes: a peer");
    const std::string again = error_of([&] { group.all_gather(whole, tensor).wait(); });
    expect_says(again, "failed before: all_reduce of 4000 bytes");
    EXPECT_LT(Clock::now() - begin, seconds(20));
  });
  EXPECT_EQ(outcomes[2].how, "killed by signal 9 (Killed)");
  expect_passed(outcomes[0]);
  expect_passed(outcomes[1]);
}

TEST(DeadPeer, LeavesARankTheFailureThatItKnows) {
  const auto outcomes = test::run_ranks(2, [](int rank) {
    const World world = launch(seconds(30));
    world.block_all();
    if (rank == 0) raise(SIGKILL);
    const auto fail = [] { throw Error(WEFT_NOT_FOUND, "no file"); };
    expect_says(error_of([&] { on_every_rank(world.communicator(), fail); }, WEFT_NOT_FOUND), "no file");
    expect_says(error_of([&] { on_every_rank(world.communicator(), [] {}); }), "peer closed");
    expect_says(error_of([&] { world.priority_execution([] {}); }), "peer closed");
  });
  expect_passed(outcomes[1]);
}

TEST(DeadPeer, EndsMessagesAndCollectivesMadeOfThem) {
  for (const std::string operation :
       {"all_gather", "reduce_scatter", "all_to_all", "recv", "broadcast", "barrier"}) {
    const auto outcomes = test::run_ranks(2, [&](int rank) {
      const World world = launch(seconds(30));
      const Communicator& group = world.communicator();
      group.barrier();
      if (rank == 1) raise(SIGKILL);
      const at::Tensor part = at::ones({1000}), whole = at::ones({2000});
      const std::string text = error_of([&] { run(operation, group, part, whole); });
      expect_says(text, operation);
      expect_says(text, "peer closed");
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_LT(text.size(), 250u) << text;
    });
    expect_passed(outcomes[0]);
  }
}

// Rank 1 joins and then does nothing. Each collective has a group of its own, because a group that has
// failed is unusable.
TEST(Timeout, EndsTheWaitForAPeerThatHangs) {
  const std::vector<std::string> operations = {"all_reduce", "all_gather", "reduce_scatter", "recv",
                                               "send",       "broadcast",  "barrier"};
  const auto outcomes = test::run_ranks(2, [&](int rank) {
    const World world = launch(kMeeting);
    std::vector<Communicator> groups;
    for (size_t i = 0; i < operations.size(); ++i) groups.push_back(world.communicator().subset({0, 1}));
    const std::string hanging = world.communicator().broadcast_text(std::to_string(getpid()), 1);
    if (rank == 1) pause();
    // Made here: where memory is short, that is no error of a collective.
    std::vector<at::Tensor> parts, wholes;
    for (size_t i = 0; i < operations.size(); ++i) {
      parts.push_back(at::ones({4'000'000}));
      wholes.push_back(at::empty({8'000'000}));
    }
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < operations.size(); ++i) {
      threads.emplace_back(
          [part = parts[i], whole = wholes[i], group = groups[i], operation = operations[i]] {
            const std::string text = error_of([&] { run(operation, group, part, whole); });
            expect_says(text, operation);
            expect_says(text, "after 8 s");
          });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(Clock::now() - begin, kMeeting + seconds(8));
    kill(std::stoi(hanging), SIGKILL);
  });
  expect_passed(outcomes[0]);
}

TEST(Launch, NamesTheRanksThatDidNotCome) {
  const auto outcomes = test::run_ranks(3, [](int rank) {
    if (rank == 1) return;
    const std::string text = error_of([] { launch(kMeeting); });
    expect_says(text, "launch: rank " + std::to_string(rank) + " of 3 (pid ");
    if (rank == 0)
      for (const char* part : {"after 8 s", "for rank 1", "to 127.0.0.1:"}) expect_says(text, part);
  });
  expect_passed(outcomes[0]);
}

// Calls launch() as rank 1 of 2 and returns what it says. It keeps the time, and shows no stack.
std::string without_master(const std::string& host, int port, milliseconds timeout = kShort) {
  const auto begin = Clock::now();
  const std::string text = error_of([&] { launch(1, 2, host, port, timeout); });
  EXPECT_LT(Clock::now() - begin, timeout + seconds(8));
  EXPECT_GE(Clock::now() - begin, timeout);
  expect_says(text, "launch: rank 1 of 2 (pid ");
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  return text;
}

TEST(Launch, SaysThatThereIsNoMaster) {
  const auto outcomes = test::run_ranks(1, [](int) {
    // Takes a port and does not listen. A port that is merely free may be another program's a moment later.
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(taken, reinterpret_cast<const sockaddr*>(&address), size), 0);
    ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const std::string port = std::to_string(ntohs(address.sin_port));
    expect_says(without_master("127.0.0.1", std::stoi(port)),
                "master at 127.0.0.1:" + port + ": 127.0.0.1 refuses");
  });
  expect_passed(outcomes[0]);
}

TEST(Launch, SaysThatTheMastersNameDoesNotResolve) {
  const auto outcomes = test::run_ranks(1, [](int) {
    expect_says(without_master("no-such-host.invalid", 29500), "no-such-host.invalid:29500");
  });
  expect_passed(outcomes[0]);
}

// Somebody listens, as the launcher does for a rank 0 that has not come so far, but never answers.
TEST(Launch, SaysThatTheMasterDoesNotAnswer) {
  const auto outcomes = test::run_ranks(1, [](int) {
    expect_says(without_master("127.0.0.1", std::stoi(std::getenv("MASTER_PORT"))), "not answer");
  });
  expect_passed(outcomes[0]);
}

TEST(Launch, SaysAfterTenSecondsWhoIsMissing) {
  const auto outcomes = test::run_ranks(3, [](int rank) {
    if (rank == 1) return;
    error_of([] { launch(milliseconds(11'500)); });
  });
  for (const char* part : {"10 s for rank 1", "to 127.0.0.1:", "11.5 s", "(--timeout)"})
    expect_says(outcomes[0].output, part);
  // One rank tells for all.
  EXPECT_EQ(outcomes[2].output.find("has waited"), std::string::npos) << outcomes[2].output;
}

TEST(Launch, SaysThatThePortIsTaken) {
  const auto outcomes = test::run_ranks(1, [](int) {
    const int port = std::stoi(std::getenv("MASTER_PORT"));
    unsetenv("WEFT_MASTER_LISTEN_FD");
    const std::string text = error_of([&] { launch(0, 2, "127.0.0.1", port, kShort); });
    expect_says(text, "port " + std::to_string(port) + " is");
  });
  expect_passed(outcomes[0]);
}

TEST(Launch, RefusesTwoProcessesOfOneRank) {
  const auto outcomes = test::run_ranks(3, [](int rank) {
    if (rank == 2) setenv("RANK", "1", 1);
    if (rank == 2) setenv("LOCAL_RANK", "1", 1);
    try {
      launch(kMeeting);
      ADD_FAILURE() << "joined";
    } catch (const Error& error) {
      std::printf("%s\n", error.what());
    }
  });
  expect_says(outcomes[1].output + outcomes[2].output, "launch: rank 1 of 3 is at 127.0.0.1");
  expect_says(outcomes[1].output + outcomes[2].output, "already");
}

TEST(Launch, RefusesRanksThatDisagreeOnTheirNumber) {
  const auto outcomes = test::run_ranks(2, [](int rank) {
    if (rank == 1) setenv("WORLD_SIZE", "3", 1);
    try {
      launch(kMeeting);
      ADD_FAILURE() << "joined";
    } catch (const Error& error) {
      std::printf("%s\n", error.what());
    }
  });
  expect_says(outcomes[0].output + outcomes[1].output, "launch: number");
}

TEST(Launch, NamesAnInterfaceThatIsNone) {
  const auto outcomes = test::run_ranks(2, [](int) {
    setenv("GLOO_SOCKET_IFNAME", "nonet7", 1);
    const std::string text = error_of([] { launch(seconds(5)); }, WEFT_INVALID_ARGUMENT);
    expect_says(text, "GLOO_SOCKET_IFNAME is \"nonet7\"");
    setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  });
  for (const auto& outcome : outcomes) expect_passed(outcome);
}

TEST(Subset, RefusesRanksThatDisagreeOnTheMembers) {
  const auto outcomes = test::run_ranks(2, [](int rank) {
    const World world = launch(kMeeting);
    try {
      world.communicator().subset(rank == 0 ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{1, 0});
      ADD_FAILURE() << "made";
    } catch (const Error& error) {
      std::printf("%s\n", error.what());
    }
  });
  expect_says(outcomes[0].output + outcomes[1].output, "subset: this rank");
}

}  // namespace
}  // namespace weft

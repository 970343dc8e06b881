// Messages between ranks of a device have a lane for each direction. Gloo stands for NCCL here: connecting
// blocks until both ends have come, as NCCL's does.
#include "lanes.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {
namespace {

using cuda::Lanes;
using std::chrono::milliseconds;
using std::chrono::seconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

c10::intrusive_ptr<c10d::Backend> connect_gloo(const StorePtr& store, int rank, int size,
                                               const std::string&) {
  auto options = c10d::ProcessGroupGloo::Options::create(seconds(30));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

// Runs `body` on `size` ranks, each with its end of the same Lanes.
void on_lanes(int size, const std::function<void(Lanes& lanes, int rank)>& body) {
  const TemporaryFolder folder;
  const std::vector<RankOutcome> outcomes = run_ranks(size, [&](int rank) {
    const auto store = c10::make_intrusive<c10d::FileStore>(folder.path() + "/store", size);
    Lanes lanes(store, rank, size, seconds(30), "test", connect_gloo);
    body(lanes, rank);
    // A rank that ends closes its connections.
    std::vector<at::Tensor> all{at::zeros({1})};
    lanes.allreduce(all, {})->wait();
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_TRUE(outcome.passed) << outcome.how << outcome.output;
}

c10::intrusive_ptr<c10d::Work> receive(Lanes& lanes, at::Tensor& tensor, int from) {
  std::vector<at::Tensor> list{tensor};
  return lanes.recv(list, from, 0);
}
c10::intrusive_ptr<c10d::Work> send(Lanes& lanes, const at::Tensor& tensor, int to) {
  std::vector<at::Tensor> list{tensor};
  return lanes.send(list, to, 0);
}

TEST(Lanes, ConnectARingInWhichEveryRankSendsFirst) {
  for (const int size : {2, 3, 4}) {
    on_lanes(size, [&](Lanes& lanes, int rank) {
      at::Tensor received = at::zeros({3});
      const auto sent = send(lanes, at::full({3}, rank + 1.0), (rank + 1) % size);
      receive(lanes, received, (rank + size - 1) % size)->wait();
      sent->wait();
      EXPECT_EQ(received[0].item<float>(), (rank + size - 1) % size + 1);
    });
  }
}

TEST(Lanes, PassMessagesBothWaysAndToRanksThatAreNoNeighbours) {
  on_lanes(4, [](Lanes& lanes, int rank) {
    const int across = (rank + 2) % 4, next = rank ^ 1;
    at::Tensor from_across = at::zeros({1}), from_next = at::zeros({1});
    const auto first = receive(lanes, from_next, next);
    send(lanes, at::full({1}, 10.0 + rank), next)->wait();
    first->wait();
    // The first message to a rank that is no neighbour blocks until that one has come to it too.
    const auto ordered = [&](bool sends) {
      if (sends)
        send(lanes, at::full({1}, 20.0 + rank), across)->wait();
      else
        receive(lanes, from_across, across)->wait();
    };
    ordered(rank < 2);
    ordered(rank >= 2);
    EXPECT_EQ(from_next.item<float>(), 10 + next);
    EXPECT_EQ(from_across.item<float>(), 20 + across);
  });
}

// Counts what it is asked, and does nothing.
class Recorder final : public c10d::Backend {
 public:
  Recorder(int rank, int size, std::string name, std::vector<std::string>& calls)
      : Backend(rank, size), name_(std::move(name)), calls_(calls) {}
  const std::string getBackendName() const override { return "recorder"; }
  void startCoalescing() override { calls_.push_back(name_ + " begin"); }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override { return note("end"); }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    return note("all_reduce");
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>&, int to, int) override {
    return note("send " + std::to_string(to));
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>&, int from, int) override {
    return note("receive " + std::to_string(from));
  }

 private:
  c10::intrusive_ptr<c10d::Work> note(const std::string& what) {
    calls_.push_back(name_ + " " + what);
    return nullptr;
  }
  const std::string name_;
  std::vector<std::string>& calls_;
};

// Rank 1 of 3, whose peers have come.
class LanesOfOneRank : public testing::Test {
 protected:
  LanesOfOneRank() : store_(c10::make_intrusive<c10d::HashStore>()) {
    for (const char* key :
         {"all/met/0", "all/met/2", "lane/0>1/met/0", "lane/1>0/met/0", "lane/1>2/met/2", "lane/2>1/met/2"})
      store_->set(key, std::vector<uint8_t>{1});
  }
  Lanes make() {
    return {store_,
            1,
            3,
            milliseconds(100),
            "test",
            [&](const StorePtr&, int rank, int size, const std::string& name) {
              return c10::make_intrusive<Recorder>(rank, size, name, calls_);
            }};
  }
  StorePtr store_;
  std::vector<std::string> calls_;
  at::Tensor tensor_ = at::zeros({1});
};

TEST_F(LanesOfOneRank, KeepDirectionsAndCollectivesApart) {
  Lanes lanes = make();
  lanes.setGroupDesc("g");
  std::vector<at::Tensor> list{tensor_};
  receive(lanes, tensor_, 0);
  send(lanes, tensor_, 0);
  send(lanes, tensor_, 2);
  lanes.allreduce(list, {});
  EXPECT_EQ(calls_, (std::vector<std::string>{"g: messages from rank 0 to rank 1 receive 0",
                                              "g: messages from rank 1 to rank 0 send 1",
                                              "g: messages from rank 1 to rank 2 send 1", "g all_reduce"}));
}

TEST_F(LanesOfOneRank, TakeMessagesOfAGroupAsOneCollective) {
  Lanes lanes = make();
  lanes.setGroupDesc("g");
  ASSERT_TRUE(lanes.supportsCoalescing());
  lanes.startCoalescing();
  send(lanes, tensor_, 2);
  receive(lanes, tensor_, 0);
  lanes.endCoalescing();
  send(lanes, tensor_, 2);
  EXPECT_EQ(calls_, (std::vector<std::string>{"g begin", "g send 2", "g receive 0", "g end",
                                              "g: messages from rank 1 to rank 2 send 1"}));
}

TEST_F(LanesOfOneRank, NameThePeerThatDoesNotCome) {
  store_->deleteKey("all/met/2");
  Lanes lanes = make();
  std::vector<at::Tensor> list{tensor_};
  try {
    lanes.allreduce(list, {});
    ADD_FAILURE() << "nobody was missed";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("100 ms rank 2"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(calls_.empty());
}

}  // namespace
}  // namespace weft::test

// Ranks that share a device communicate through host memory. The tensors of this test are in host memory too:
// the copies are made all the same.
#include "comm/staged_backend.hpp"

#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {
namespace {

using comm::StagedBackend;

void on_staged(int size, const std::function<void(StagedBackend& backend, int rank)>& body) {
  const TemporaryFolder folder;
  const std::vector<RankOutcome> outcomes = run_ranks(size, [&](int rank) {
    const auto store = c10::make_intrusive<c10d::FileStore>(folder.path() + "/store", size);
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(30));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    const auto host = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
    StagedBackend backend(host);
    body(backend, rank);
    host->barrier()->wait();
  });
  for (const RankOutcome& outcome : outcomes) EXPECT_TRUE(outcome.passed) << outcome.how << outcome.output;
}

TEST(StagedBackend, GivesResultsWhenTheyAreWaitedFor) {
  on_staged(2, [](StagedBackend& backend, int rank) {
    const at::Tensor sum = at::full({1000}, rank + 1.0);
    std::vector<at::Tensor> list{sum};
    const auto work = backend.allreduce(list, {});
    EXPECT_TRUE(at::equal(sum, at::full({1000}, rank + 1.0)));  // host memory has it, the device not yet
    work->wait();
    EXPECT_TRUE(at::equal(sum, at::full({1000}, 3.0)));
    sum.zero_();
    work->wait();  // a second wait copies nothing
    EXPECT_TRUE(at::equal(sum, at::zeros({1000})));
  });
}

TEST(StagedBackend, BroadcastsAndLeavesTheRootAlone) {
  on_staged(3, [](StagedBackend& backend, int rank) {
    const at::Tensor tensor = at::full({7}, rank + 0.5, at::kDouble);
    const auto version = tensor._version();
    std::vector<at::Tensor> list{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = 1;
    backend.broadcast(list, options)->wait();
    EXPECT_TRUE(at::equal(tensor, at::full({7}, 1.5, at::kDouble)));
    EXPECT_EQ(tensor._version() == version, rank == 1);
  });
}

TEST(StagedBackend, SendsWhatTheTensorHeldThen) {
  on_staged(2, [](StagedBackend& backend, int rank) {
    const at::Tensor tensor = at::full({100}, 1.0 + rank);
    std::vector<at::Tensor> list{tensor};
    if (rank == 0) {
      const auto work = backend.send(list, 1, 5);
      tensor.zero_();
      work->wait();
    } else {
      backend.recv(list, 0, 5)->wait();
      EXPECT_TRUE(at::equal(tensor, at::full({100}, 1.0)));
    }
  });
}

}  // namespace
}  // namespace weft::test

#include "nccl.hpp"

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "lanes.hpp"
#include "started_work.hpp"

namespace weft::cuda {

namespace {

using c10d::ErrorType;
using c10d::OpType;

class NcclGroup;

// The groups of this process.
struct Groups {
  std::mutex mutex;
  std::vector<NcclGroup*> list;
  std::string failed;  // of a group that is gone
};
Groups& groups() {
  static auto& groups = *new Groups;  // outlives groups in static variables
  return groups;
}

// libtorch's watchdog thread sees within a tenth of a second that work has failed or is late. By default it
// ends the process then. Here it aborts the communicators, which ends what the device waits for, and the host
// is told by failure() when it next reads from the device or starts something.
class NcclGroup final : public c10d::ProcessGroupNCCL {
 public:
  NcclGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
            const c10::intrusive_ptr<Options>& options, std::string name)
      : ProcessGroupNCCL(store, rank, size, options), name_(std::move(name)) {
    // With TORCH_NCCL_BLOCKING_WAIT the user asked for waits of the host, which need no watchdog.
    if (!blockingWait_) asyncErrorHandling_ = c10d::CleanUpOnly;
    const std::lock_guard lock(groups().mutex);
    groups().list.push_back(this);
  }

  ~NcclGroup() override {
    {
      const std::lock_guard lock(groups().mutex);
      auto& list = groups().list;
      list.erase(std::remove(list.begin(), list.end(), this), list.end());
      if (groups().failed.empty()) groups().failed = failure();
    }
    try {
      if (failure().empty())
        shutdown();
      else
        abort();  // shutdown() would wait for the peers
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weft: %s: closing it: %s\n", who().c_str(), error.what());
    }
  }

  // Returns what failed: "communicator "all": rank 0 of 2: all_reduce of 4096 bytes: was not done within
  // 20 s". Empty if nothing did.
  std::string failure() {
    const ErrorType error = getError();
    if (error == ErrorType::SUCCESS) return "";
    return who() + ": " + started_.failed() + ": " + words_of(error, getOptions()->timeout);
  }

 protected:
  // Called for each work before it starts.
  c10::intrusive_ptr<WorkNCCL> initWork(at::Device& device, int rank, OpType type, bool is_message,
                                        const char* title, const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& outputs, bool record) override {
    TORCH_CHECK(getError() == ErrorType::SUCCESS, failure());
    auto work = ProcessGroupNCCL::initWork(device, rank, type, is_message, title, inputs, outputs, record);
    if (record) started_.add(type, inputs, work->getFutureResult());  // the watchdog will look at it
    return work;
  }

  // Called if even the watchdog hangs, by another thread.
  void terminateProcess(const std::string& why) override {
    std::fprintf(stderr, "weft: %s: NCCL does not answer, the process ends: %s\n", who().c_str(),
                 why.c_str());
    std::abort();
  }

 private:
  std::string who() const {
    return "communicator \"" + name_ + "\": rank " + std::to_string(getRank()) + " of " +
           std::to_string(getSize());
  }

  const std::string name_;
  StartedWork started_;
};

c10::intrusive_ptr<c10d::Backend> connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                          const std::string& name, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = timeout;
  auto group = c10::make_intrusive<NcclGroup>(store, rank, size, options, name);
  group->eagerConnectSingleDevice(at::Device(c10::DeviceType::CUDA, c10::cuda::current_device()));
  return group;
}

}  // namespace

std::string nccl_version() {
  return c10d::getNcclVersion();
}

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            std::chrono::milliseconds timeout,
                                            const c10::intrusive_ptr<c10d::Backend>&) {
  return c10::make_intrusive<Lanes>(
      store, rank, size, timeout, "nccl",
      [timeout](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name) {
        return connect(store, rank, size, name, timeout);
      });
}

std::string failure() {
  const std::lock_guard lock(groups().mutex);
  if (!groups().failed.empty()) return groups().failed;
  for (NcclGroup* const group : groups().list)
    if (std::string text = group->failure(); !text.empty()) return text;
  return "";
}

}  // namespace weft::cuda

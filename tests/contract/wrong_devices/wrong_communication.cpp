// Mistakes of communication and of graphs.
#include <ATen/ATen.h>

#include <atomic>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "sim/training/sim_kind.hpp"
#include "wrong_devices.hpp"

namespace weft::test {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

std::atomic<bool> communicated = false;

// The bytes of some messages of the suite, in fp32: a part that is gathered, a part that is summed, and one
// row of parts with unequal numbers of rows.
constexpr int64_t kPart = 400, kPartOfSum = 132, kRow = 36;

class Wrong final : public c10d::Backend {
 public:
  explicit Wrong(c10::intrusive_ptr<c10d::Backend> right)
      : Backend(right->getRank(), right->getSize()), right_(std::move(right)) {}

  const std::string getBackendName() const override { return "wrong"; }
  bool supportsCoalescing() const override { return true; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    communicated = true;
    c10d::AllreduceOptions own = options;
    const c10d::ReduceOp::RedOpType op = options.reduceOp;
    if (is("averages") && op == c10d::ReduceOp::SUM && tensors[0].is_floating_point())
      tensors[0].div_(getSize());
    if (is("sums for the largest") && op == c10d::ReduceOp::MAX) own.reduceOp = c10d::ReduceOp::SUM;
    if (is("takes the largest for the smallest") && op == c10d::ReduceOp::MIN)
      own.reduceOp = c10d::ReduceOp::MAX;
    if (is("sums half precision in parts") && tensors[0].scalar_type() == at::kHalf) tensors[0].mul_(0.5);
    return right_->allreduce(tensors, own);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    c10d::BroadcastOptions own = options;
    if (is("broadcasts from rank 0")) own.rootRank = 0;
    return right_->broadcast(tensors, own);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    const int64_t size = tensors[0].numel();
    const bool loses_end = is("loses the end of messages");
    const bool loses_all = (is("sends no part of a sum") && size == kPartOfSum) ||
                           (is("sends no part of one row") && size == kRow);
    if (!loses_end && !loses_all) return right_->send(tensors, to, tag);
    sent_.push_back(tensors[0].clone());
    const at::Tensor flat = sent_.back().view({-1});
    flat.narrow(0, loses_end ? size - 1 : 0, loses_end ? 1 : size).zero_();
    Tensors changed{sent_.back()};
    return right_->send(changed, to, tag);
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    const bool swaps = is("swaps two parts") && grouping_ && getSize() == 3 && tensors[0].numel() == kPart;
    return right_->recv(tensors, swaps ? 3 - getRank() - from : from, tag);
  }
  void startCoalescing() override {
    grouping_ = true;
    right_->startCoalescing();
  }
  WorkPtr endCoalescing() override {
    grouping_ = false;
    return right_->endCoalescing();
  }
  void abort() override { right_->abort(); }

 private:
  const c10::intrusive_ptr<c10d::Backend> right_;
  Tensors sent_;
  bool grouping_ = false;
};

class Graph final : public device::Graph {
 public:
  explicit Graph(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override {
    if (is("replays nothing")) return;
    if (is("replays once") && std::exchange(replayed_, true)) return;
    work_();
  }

 private:
  const std::function<void()> work_;
  bool replayed_ = false;
};

class Capturer final : public device::GraphCapturer {
 public:
  std::unique_ptr<device::Graph> capture(const std::function<void()>& give) override {
    std::function<void()> work = sim::capture(give);
    if (is("runs what it captures")) work();
    return std::make_unique<Graph>(std::move(work));
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> connect_wrongly(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                  int size, std::chrono::milliseconds timeout,
                                                  const c10::intrusive_ptr<c10d::Backend>&) {
  return c10::make_intrusive<Wrong>(connect_sim(store, rank, size, timeout));
}

std::unique_ptr<device::GraphCapturer> make_wrong_capturer() {
  return std::make_unique<Capturer>();
}

bool has_communicated() {
  return communicated;
}

}  // namespace weft::test

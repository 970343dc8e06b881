#include "comm/staged_backend.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "device/tensors.hpp"

namespace weft::comm {

namespace {

using Tensors = StagedBackend::Tensors;
using WorkPtr = StagedBackend::WorkPtr;

// Returns new tensors in host memory. With `values` they have those of `tensors`, for which the host waits.
Tensors in_host_memory(const Tensors& tensors, bool values) {
  Tensors staged;
  for (const at::Tensor& tensor : tensors) {
    staged.push_back(at::empty(tensor.sizes(), tensor.options().device(device::kHost)));
    if (values) staged.back().copy_(tensor);
  }
  device::check_work();
  return staged;
}

class StagedWork final : public c10d::Work {
 public:
  // `outputs` get the values of `staged` when `work` is done; both are empty if nothing comes back.
  StagedWork(WorkPtr work, Tensors outputs, Tensors staged)
      : work_(std::move(work)), outputs_(std::move(outputs)), staged_(std::move(staged)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  bool wait(std::chrono::milliseconds timeout) override {
    if (!work_->wait(timeout)) return false;
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].copy_(staged_[i]);
    outputs_.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  void abort() override { work_->abort(); }

 private:
  const WorkPtr work_;
  Tensors outputs_;
  const Tensors staged_;  // c10d keeps no reference to what it sends
};

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> host)
    : Backend(host->getRank(), host->getSize()), host_(std::move(host)) {}

WorkPtr StagedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Tensors staged = in_host_memory(tensors, true);
  WorkPtr work = host_->allreduce(staged, options);
  return c10::make_intrusive<StagedWork>(std::move(work), tensors, std::move(staged));
}

WorkPtr StagedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const bool sends = options.rootRank == getRank();
  Tensors staged = in_host_memory(tensors, sends);
  WorkPtr work = host_->broadcast(staged, options);
  return c10::make_intrusive<StagedWork>(std::move(work), sends ? Tensors() : tensors, std::move(staged));
}

WorkPtr StagedBackend::send(Tensors& tensors, int to, int tag) {
  Tensors staged = in_host_memory(tensors, true);
  WorkPtr work = host_->send(staged, to, tag);
  return c10::make_intrusive<StagedWork>(std::move(work), Tensors(), std::move(staged));
}

WorkPtr StagedBackend::recv(Tensors& tensors, int from, int tag) {
  Tensors staged = in_host_memory(tensors, false);
  WorkPtr work = host_->recv(staged, from, tag);
  return c10::make_intrusive<StagedWork>(std::move(work), tensors, std::move(staged));
}

}  // namespace weft::comm

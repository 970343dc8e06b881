// A backend for tensors on a device that communicates through host memory, for ranks that share a device or
// whose device has no backend of its own. Starting something makes the host wait for the device; wait()
// copies what has come back to it.
#pragma once

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace weft::comm {

class StagedBackend final : public c10d::Backend {
 public:
  // `host` is the backend for tensors in host memory.
  explicit StagedBackend(c10::intrusive_ptr<c10d::Backend> host);

  const std::string getBackendName() const override { return host_->getBackendName(); }

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  void abort() override { host_->abort(); }

 private:
  const c10::intrusive_ptr<c10d::Backend> host_;
};

}  // namespace weft::comm

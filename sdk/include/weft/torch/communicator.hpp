// Communicators: groups of ranks and their collectives, as C++ classes over the host's table. Contracts:
// weft/comm.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host_tables.hpp"

namespace weft::plugin {
inline namespace v0 {

// A collective or a transfer in progress. The destructor neither waits for it nor cancels it.
class Work {
 public:
  Work() = default;
  explicit Work(weft_work* work) : work_(work) {}
  Work(Work&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  Work& operator=(Work&& other) noexcept {
    std::swap(work_, other.work_);
    return *this;
  }
  ~Work() { host.comm->release(work_); }
  explicit operator bool() const { return work_ != nullptr; }
  // Returns the host's work, which the caller owns from now on.
  weft_work* detach() { return std::exchange(work_, nullptr); }
  // Waits until the tensors hold the result. Does nothing if there is no work.
  void wait() {
    if (work_ == nullptr) return;
    check(host.comm->wait(work_, current_error));
    host.comm->release(std::exchange(work_, nullptr));
  }

 private:
  weft_work* work_ = nullptr;
};

// A group of ranks. All collectives except barrier() start and do not wait. See weft_comm_services.
class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(weft_comm* comm) : comm_(comm) {}
  explicit operator bool() const { return comm_ != nullptr; }
  uint32_t rank() const { return host.comm->rank(comm_); }
  uint32_t size() const { return host.comm->size(comm_); }

  // `op` is WEFT_REDUCE_*; or WEFT_REDUCE_CONTROL to it for bookkeeping.
  Work all_reduce(const Tensor& inout, uint32_t op = WEFT_REDUCE_SUM) const {
    return start(host.comm->all_reduce, handle(inout), op);
  }
  Work all_gather(const Tensor& output, const Tensor& input) const {
    return start(host.comm->all_gather, handle(output), handle(input));
  }
  Work reduce_scatter(const Tensor& output, const Tensor& input, uint32_t op = WEFT_REDUCE_SUM) const {
    return start(host.comm->reduce_scatter, handle(output), handle(input), op);
  }
  Work broadcast(const Tensor& inout, uint32_t root) const {
    return start(host.comm->broadcast, handle(inout), root);
  }
  // The splits have one number of elements of the first dimension per rank; empty means equal parts.
  Work all_to_all(const Tensor& output, const Tensor& input, const std::vector<int64_t>& output_splits = {},
                  const std::vector<int64_t>& input_splits = {}) const {
    const auto splits = [this](const std::vector<int64_t>& s) {
      if (!s.empty() && s.size() != size())
        throw Error(WEFT_INVALID_ARGUMENT, "all_to_all: " + std::to_string(s.size()) +
                                               " splits for a group of " + std::to_string(size()) + " ranks");
      return s.empty() ? nullptr : s.data();
    };
    return start(host.comm->all_to_all, handle(output), handle(input), splits(output_splits),
                 splits(input_splits));
  }
  Work send(const Tensor& value, uint32_t to, uint32_t tag) const {
    return start(host.comm->send, handle(value), to, tag);
  }
  Work recv(const Tensor& value, uint32_t from, uint32_t tag) const {
    return start(host.comm->recv, handle(value), from, tag);
  }
  void barrier() const { check(host.comm->barrier(comm_, current_error)); }
  Communicator subset(const std::vector<uint32_t>& members) const {
    weft_comm* out = nullptr;
    check(
        host.comm->subset(comm_, members.data(), static_cast<uint32_t>(members.size()), &out, current_error));
    return Communicator(out);
  }

 private:
  template <class Function, class... Arguments>
  Work start(Function function, Arguments... arguments) const {
    weft_work* work = nullptr;
    check(function(comm_, arguments..., &work, current_error));
    return Work(work);
  }
  weft_comm* comm_ = nullptr;
};

}  // namespace v0
}  // namespace weft::plugin

#include "started_work.hpp"

#include <utility>

namespace weft::cuda {

namespace {

using c10d::OpType;

constexpr size_t kMostStarted = 4096;

// Returns how messages call a work of this type.
std::string words_of(OpType type) {
  switch (type) {
    case OpType::ALLREDUCE:
      return "all_reduce";
    case OpType::BROADCAST:
      return "broadcast";
    case OpType::_ALLGATHER_BASE:
      return "all_gather";
    case OpType::_REDUCE_SCATTER_BASE:
      return "reduce_scatter";
    case OpType::ALLTOALL_BASE:
      return "all_to_all";
    case OpType::SEND:
      return "send";
    case OpType::RECV:
      return "receive";
    case OpType::COALESCED:
      return "exchange of messages";
    default:
      return c10d::opTypeToString(type);
  }
}

bool succeeded(c10::ivalue::Future& result) {
  return !result.hasError() && result.value().isInt() &&
         result.value().toInt() == static_cast<int64_t>(c10d::WorkResult::SUCCESS);
}

}  // namespace

void StartedWork::add(OpType type, const std::vector<at::Tensor>& inputs,
                      c10::intrusive_ptr<c10::ivalue::Future> result) {
  size_t bytes = 0;
  for (const at::Tensor& tensor : inputs) bytes += tensor.nbytes();
  const std::lock_guard lock(mutex_);
  while (!started_.empty() && (started_.size() >= kMostStarted || !started_.front().result ||
                               (started_.front().result->completed() && succeeded(*started_.front().result))))
    started_.pop_front();
  started_.push_back({words_of(type) + " of " + std::to_string(bytes) + " bytes", std::move(result)});
}

std::string StartedWork::failed() {
  const std::lock_guard lock(mutex_);
  for (const Started& work : started_)
    if (work.result && work.result->completed() && !succeeded(*work.result)) return work.what;
  return "a collective";
}

std::string words_of(c10d::ErrorType error, std::chrono::milliseconds timeout) {
  switch (error) {
    case c10d::ErrorType::TIMEOUT:
      return "was not done within " + (timeout.count() < 1000
                                           ? std::to_string(timeout.count()) + " ms"
                                           : std::to_string(timeout.count() / 1000) + " s");
    case c10d::ErrorType::REMOTE_ERROR:
      return "failed on another rank";
    default:
      return "NCCL failed, as it does when a peer has ended";
  }
}

}  // namespace weft::cuda

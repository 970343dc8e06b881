#include "lanes.hpp"

#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace weft::cuda {

using WorkPtr = Lanes::WorkPtr;

namespace {

std::string text_of(std::pair<int, int> lane) {
  return "messages from rank " + std::to_string(lane.first) + " to rank " + std::to_string(lane.second);
}

std::string key_of(std::pair<int, int> lane) {
  return "lane/" + std::to_string(lane.first) + ">" + std::to_string(lane.second);
}

c10::intrusive_ptr<c10d::Store> part_of(const c10::intrusive_ptr<c10d::Store>& store,
                                        const std::string& prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

}  // namespace

Lanes::Lanes(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
             std::string name, Connect connect)
    : Backend(rank, size),
      store_(std::move(store)),
      timeout_(timeout),
      name_(std::move(name)),
      connect_(std::move(connect)) {}

// Connecting has no timeout of its own, so everybody is waited for first.
void Lanes::meet(const std::string& key, const std::vector<int>& ranks, const std::string& what) {
  const auto own = [&](int rank) { return key + "/met/" + std::to_string(rank); };
  std::vector<std::string> others;
  for (const int rank : ranks)
    if (rank != getRank()) others.push_back(own(rank));
  store_->set(own(getRank()), std::vector<uint8_t>{1});
  try {
    if (!others.empty()) store_->wait(others, timeout_);
  } catch (const std::exception&) {
    std::string absent;
    for (const int rank : ranks)
      if (rank != getRank() && !store_->check({own(rank)}))
        absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
    TORCH_CHECK(false, name_, ": within ", timeout_.count(), " ms rank ",
                absent.empty() ? "(unknown)" : absent, " did not come to connect for ", what);
  }
}

c10d::Backend& Lanes::all() {
  if (!all_) {
    std::vector<int> ranks;
    for (int rank = 0; rank < getSize(); ++rank) ranks.push_back(rank);
    meet("all", ranks, "collectives");
    all_ = connect_(part_of(store_, "all"), getRank(), getSize(), getGroupDesc());
  }
  return *all_;
}

void Lanes::connect_lane(Lane lane) {
  auto& backend = lanes_[lane];
  if (backend) return;
  const std::string key = key_of(lane), what = text_of(lane);
  meet(key, {lane.first, lane.second}, what);
  backend = connect_(part_of(store_, key), getRank() == lane.first ? 0 : 1, 2, getGroupDesc() + ": " + what);
}

// In the same order on every rank, so that no circle of ranks waits for each other.
void Lanes::connect_neighbours() {
  if (has_neighbours_) return;
  const int size = getSize();
  for (int rank = 0; rank < size; ++rank) {
    const int next = (rank + 1) % size;
    if (next == rank || (getRank() != rank && getRank() != next)) continue;
    connect_lane({rank, next});
    connect_lane({next, rank});
  }
  has_neighbours_ = true;
}

c10d::Backend& Lanes::lane(int sender, int receiver) {
  connect_neighbours();
  connect_lane({sender, receiver});
  return *lanes_.at({sender, receiver});
}

WorkPtr Lanes::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return all().allreduce(tensors, options);
}
WorkPtr Lanes::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return all().broadcast(tensors, options);
}
WorkPtr Lanes::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return all()._allgather_base(output, input, options);
}
WorkPtr Lanes::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options) {
  return all()._reduce_scatter_base(output, input, options);
}
WorkPtr Lanes::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                             std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  return all().alltoall_base(output, input, output_splits, input_splits, options);
}

void Lanes::startCoalescing() {
  all().startCoalescing();
  grouping_ = true;
}
WorkPtr Lanes::endCoalescing() {
  grouping_ = false;
  return all().endCoalescing();
}

WorkPtr Lanes::send(Tensors& tensors, int to, int tag) {
  return grouping_ ? all().send(tensors, to, tag) : lane(getRank(), to).send(tensors, 1, tag);
}
WorkPtr Lanes::recv(Tensors& tensors, int from, int tag) {
  return grouping_ ? all().recv(tensors, from, tag) : lane(from, getRank()).recv(tensors, 0, tag);
}

void Lanes::abort() {
  if (all_) all_->abort();
  for (auto& [lane, backend] : lanes_)
    if (backend) backend->abort();
}

}  // namespace weft::cuda

// A backend that gives the messages from one rank to another a lane of their own: a communicator of those
// two.
//
// A device does the work of one communicator in its order. Messages of all peers on one communicator would
// wait for each other, and two ranks that both receive before they send would wait forever. With a lane for
// each direction, a message waits only for earlier ones from the same rank to the same rank.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace weft::cuda {

class Lanes final : public c10d::Backend {
 public:
  // Makes a communicator of `size` ranks; blocks until all of them are connected. `name` is for messages.
  using Connect = std::function<c10::intrusive_ptr<c10d::Backend>(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name)>;

  // `name` is that of `connect` as messages tell it. Does not block: the communicator of all ranks is made by
  // the first collective, lanes by the first message.
  Lanes(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
        std::string name, Connect connect);

  const std::string getBackendName() const override { return name_; }
  bool supportsCoalescing() const override { return true; }

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  // Messages between these two are one collective of all ranks.
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  // A tag has no effect: the n-th message to a rank is the n-th that it receives from this one. The first
  // message of a rank blocks until its two neighbours on the ring of ranks have come to their first, and the
  // first to any other rank until that one has come to it.
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  void abort() override;

 private:
  using Lane = std::pair<int, int>;  // sender, receiver

  c10d::Backend& all();
  c10d::Backend& lane(int sender, int receiver);
  void connect_lane(Lane lane);
  void connect_neighbours();
  // Blocks until all of these ranks have come here with this key.
  void meet(const std::string& key, const std::vector<int>& ranks, const std::string& what);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::chrono::milliseconds timeout_;
  const std::string name_;
  const Connect connect_;
  c10::intrusive_ptr<c10d::Backend> all_;
  bool grouping_ = false, has_neighbours_ = false;
  std::map<Lane, c10::intrusive_ptr<c10d::Backend>> lanes_;
};

}  // namespace weft::cuda

// Collectives and messages of the simulated device. Their order and time are those of a stream; a thread
// behind each stream does them one after the other with a backend of the host, so that the host goes on.
#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "sim/comm_queue.hpp"
#include "sim/device_work.hpp"
#include "sim/sim_device.hpp"

namespace weft::sim {

namespace {

using c10d::OpType;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

bool is_ready(const std::shared_future<void>& done) {
  return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

class SimWork final : public c10d::Work {
 public:
  // Marks what `stream` has been given so far.
  SimWork(int rank, OpType type, std::shared_future<void> done, c10::Stream stream, Tensors held,
          Tensors outputs)
      : Work(rank, type),
        done_(std::move(done)),
        stream_(stream),
        held_(std::move(held)),
        end_(c10::kPrivateUse1) {
    end_.record(stream_);
    const c10::StreamGuard on_stream(stream_);
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{stream_.device()});
    future_->markCompleted(c10::IValue(std::move(outputs)));
  }

  bool isCompleted() override { return is_ready(done_) && (failure() != nullptr || end_.query()); }
  bool isSuccess() const override { return is_ready(done_) && failure() == nullptr; }
  std::exception_ptr exception() const override { return is_ready(done_) ? failure() : nullptr; }
  void synchronize() override {
    end_.block(current_stream(stream_.device_index()));
    held_.clear();
  }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  std::exception_ptr failure() const {
    try {
      done_.get();
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  const std::shared_future<void> done_;
  const c10::Stream stream_;
  Tensors held_;  // until the caller's stream is ordered behind the end
  c10::Event end_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Sums (or takes the largest or smallest of) the parts in the order of ranks; rounds half precision once.
void reduce_in_order(const at::Tensor& output, const Tensors& parts, c10d::ReduceOp::RedOpType op) {
  const bool adds = op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG;
  const bool half = c10::isReducedFloatingType(output.scalar_type());
  at::Tensor result = adds && half ? parts[0].to(at::kFloat) : parts[0].clone();
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    if (adds)
      result.add_(parts[rank]);
    else
      result =
          op == c10d::ReduceOp::MAX ? at::maximum(result, parts[rank]) : at::minimum(result, parts[rank]);
  }
  if (op == c10d::ReduceOp::AVG) result.div_(static_cast<int64_t>(parts.size()));
  output.copy_(result.view(output.sizes()));
}

class SimBackend final : public c10d::Backend {
 public:
  SimBackend(c10::intrusive_ptr<Backend> host, c10::Device device)
      : Backend(host->getRank(), host->getSize()),
        host_(std::move(host)),
        device_(device),
        comm_(new_stream(device.index())) {}

  const std::string getBackendName() const override { return "sim"; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return host_->supportsSplitting(); }
  void setTimeout(std::chrono::milliseconds timeout) override { host_->setTimeout(timeout); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Piece piece("all_reduce", tensors, tensors);
    piece.start = [host = host_, list = piece.outputs_on_cpu(), options]() mutable {
      return host->allreduce(list, options);
    };
    return issue(OpType::ALLREDUCE, comm_, std::move(piece));
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    Piece piece("reduce", tensors, tensors);
    piece.start = [host = host_, list = piece.outputs_on_cpu(), options]() mutable {
      return host->reduce(list, options);
    };
    return issue(OpType::REDUCE, comm_, std::move(piece));
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const bool sends = options.rootRank == getRank();
    Piece piece("broadcast", sends ? tensors : Tensors(), sends ? Tensors() : tensors);
    piece.start = [host = host_, list = sends ? piece.inputs_on_cpu() : piece.outputs_on_cpu(),
                   options]() mutable { return host->broadcast(list, options); };
    return issue(OpType::BROADCAST, comm_, std::move(piece));
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    Piece piece("all_gather", {input}, {output});
    piece.start = [host = host_, out = piece.outputs_on_cpu()[0], in = piece.inputs_on_cpu()[0],
                   options]() mutable { return host->_allgather_base(out, in, options); };
    return issue(OpType::_ALLGATHER_BASE, comm_, std::move(piece));
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    const c10d::ReduceOp::RedOpType op = options.reduceOp;
    TORCH_CHECK(op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::MAX ||
                    op == c10d::ReduceOp::MIN,
                "sim: reduce_scatter sums, averages, or takes the largest or smallest value");
    TORCH_CHECK(input.is_contiguous() && input.numel() == output.numel() * getSize(),
                "sim: reduce_scatter: the input has ", input.numel(),
                " elements, must be contiguous and have ", getSize(), " times the ", output.numel(),
                " of the output");
    Piece piece("reduce_scatter", {input}, {output});
    const at::Tensor in = piece.inputs_on_cpu()[0], out = piece.outputs_on_cpu()[0];
    const auto received = std::make_shared<at::Tensor>();
    piece.start = [host = host_, in, received, timeout = options.timeout] {
      at::Tensor bytes = in.reshape(-1).view(at::kByte);
      *received = at::empty_like(bytes);
      std::vector<int64_t> equal;
      c10d::AllToAllOptions all_to_all;
      all_to_all.timeout = timeout;
      return host->alltoall_base(*received, bytes, equal, equal, all_to_all);
    };
    piece.finish = [out, received, op, size = getSize()] {
      reduce_in_order(out, received->view(out.scalar_type()).view({size, -1}).unbind(), op);
    };
    return issue(OpType::_REDUCE_SCATTER_BASE, comm_, std::move(piece));
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override {
    Piece piece("all_to_all", {input}, {output});
    piece.start = [host = host_, out = piece.outputs_on_cpu()[0], in = piece.inputs_on_cpu()[0],
                   output_splits, input_splits, options]() mutable {
      return host->alltoall_base(out, in, output_splits, input_splits, options);
    };
    return issue(OpType::ALLTOALL_BASE, comm_, std::move(piece));
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    Piece piece("barrier", {}, {});
    piece.start = [host = host_, options] { return host->barrier(options); };
    return issue(OpType::BARRIER, comm_, std::move(piece));
  }

  // The tag is not used: the n-th message to a rank is the n-th that it receives from this one.
  WorkPtr send(Tensors& tensors, int to, int) override {
    Peer& peer = peer_of(to);
    Piece piece("send to rank " + std::to_string(to), tensors, {});
    piece.start = [host = host_, list = piece.inputs_on_cpu(), to, number = peer.sent++]() mutable {
      return host->send(list, to, number);
    };
    return issue(OpType::SEND, peer.stream, std::move(piece));
  }
  WorkPtr recv(Tensors& tensors, int from, int) override {
    Peer& peer = peer_of(from);
    Piece piece("receive from rank " + std::to_string(from), {}, tensors);
    piece.start = [host = host_, list = piece.outputs_on_cpu(), from, number = peer.received++]() mutable {
      return host->recv(list, from, number);
    };
    return issue(OpType::RECV, peer.stream, std::move(piece));
  }

  // What is issued until endCoalescing() is one launch on one stream, and is done at once.
  void startCoalescing() override {
    TORCH_CHECK(!group_, "sim: startCoalescing() in a group that has not ended");
    group_.emplace();
  }
  WorkPtr endCoalescing() override {
    TORCH_CHECK(group_, "sim: endCoalescing() without startCoalescing()");
    std::vector<Piece> pieces = std::move(*group_);
    group_.reset();
    return start(OpType::COALESCED, comm_, std::move(pieces));
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return together([&] {
      for (const at::Tensor& tensor : tensors) {
        Tensors one{tensor};
        allreduce(one, options);
      }
    });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    return together([&] {
      for (size_t i = 0; i < outputs.size(); ++i) _allgather_base(outputs[i], inputs.at(i), options);
    });
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    return together([&] {
      for (size_t i = 0; i < outputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs.at(i), options);
    });
  }

  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override {
    auto part = host_->split(store, ranks, options);
    if (!part) return nullptr;
    return c10::make_intrusive<SimBackend>(std::move(part), device_);
  }

  // All work that is not done fails.
  void abort() override {
    queue_.abort();
    for (auto& [rank, peer] : peers_) peer.queue.abort();
  }

 private:
  // A collective, or a message.
  struct Piece {
    Piece(std::string name, const Tensors& inputs, const Tensors& outputs)
        : name(std::move(name)), inputs(inputs), outputs(outputs), view(this->name) {}

    Tensors inputs_on_cpu() { return on_cpu(inputs); }
    Tensors outputs_on_cpu() { return on_cpu(outputs); }
    Tensors on_cpu(const Tensors& tensors) {
      Tensors list;
      for (const at::Tensor& tensor : tensors) {
        TORCH_CHECK(is_on_device(tensor), "sim: ", name, ": a tensor is on ", tensor.device(),
                    ", must be on the device");
        list.push_back(view.of(tensor));
      }
      return list;
    }

    std::string name;
    Tensors inputs, outputs;
    HostView view;
    std::function<WorkPtr()> start;
    std::function<void()> finish;
  };
  struct Peer {
    explicit Peer(c10::Stream stream) : stream(stream) {}
    c10::Stream stream;
    int sent = 0, received = 0;
    CommQueue queue;
  };

  Peer& peer_of(int rank) {
    auto found = peers_.find(rank);
    if (found == peers_.end()) found = peers_.try_emplace(rank, new_stream(device_.index())).first;
    return found->second;
  }

  template <class Issue>
  WorkPtr together(Issue issue_all) {
    startCoalescing();
    try {
      issue_all();
    } catch (...) {
      group_.reset();
      throw;
    }
    return endCoalescing();
  }

  // In a group it returns null: the group's work is that of endCoalescing().
  WorkPtr issue(OpType type, c10::Stream stream, Piece piece) {
    if (group_) {
      group_->push_back(std::move(piece));
      return nullptr;
    }
    std::vector<Piece> pieces;
    pieces.push_back(std::move(piece));
    return start(type, stream, std::move(pieces));
  }

  CommQueue& queue_of(c10::Stream stream) {
    for (auto& [rank, peer] : peers_)
      if (peer.stream == stream) return peer.queue;
    return queue_;
  }

  WorkPtr start(OpType type, c10::Stream stream, std::vector<Piece> pieces) {
    std::vector<Access> accesses;
    Tensors held, outputs;
    std::string name;
    CommQueue::Job job;
    for (Piece& piece : pieces) {
      for (const at::Tensor& tensor : piece.inputs) accesses.push_back({tensor, false});
      for (const at::Tensor& tensor : piece.outputs) accesses.push_back({tensor, true});
      held.insert(held.end(), piece.inputs.begin(), piece.inputs.end());
      held.insert(held.end(), piece.outputs.begin(), piece.outputs.end());
      outputs.insert(outputs.end(), piece.outputs.begin(), piece.outputs.end());
      name += (name.empty() ? "" : ", ") + piece.name;
      job.starts.push_back(std::move(piece.start));
      if (piece.finish) job.finishes.push_back(std::move(piece.finish));
    }
    for (const Access& access : accesses)
      TORCH_CHECK(access.tensor.device() == device_, "sim: ", name, ": a tensor is on ",
                  access.tensor.device(), ", must be on ", device_);
    c10::Event ready(c10::kPrivateUse1);
    ready.record(current_stream(device_.index()));
    ready.block(stream);
    job.before = unfinished(accesses);
    job.issuing = &issuing_;
    job.name = name;
    job.group = "communicator \"" + getGroupDesc() + "\": rank " + std::to_string(getRank()) + " of " +
                std::to_string(getSize());
    const std::shared_future<void> done = queue_of(stream).add(std::move(job));
    launch(name, stream, accesses, Path::kBus);
    count_collective(stream);
    set_unfinished(accesses, done);
    return c10::make_intrusive<SimWork>(getRank(), type, done, stream, std::move(held), std::move(outputs));
  }

  const c10::intrusive_ptr<Backend> host_;
  const c10::Device device_;
  const c10::Stream comm_;
  std::optional<std::vector<Piece>> group_;
  std::mutex issuing_;  // outlives the queues
  std::map<int, Peer> peers_;
  CommQueue queue_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                               int size, std::chrono::milliseconds timeout,
                                               const c10::intrusive_ptr<c10d::Backend>&) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto host = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  host->barrier()->wait();  // otherwise a member could leave while others still connect
  return c10::make_intrusive<SimBackend>(std::move(host), device(current_device()));
}

}  // namespace weft::sim

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "comm/byte_count.hpp"
#include "comm/checks.hpp"
#include "comm/group.hpp"
#include "comm/message_group.hpp"
#include "comm/rank_order_sum.hpp"

namespace weft {
namespace {

using comm::require;
using comm::Traffic;
using Group = Communicator::Group;

Work finished() {
  return Work();
}

// Returns the flat memory of a tensor, without autograd and version counter.
at::Tensor flat(const at::Tensor& tensor) {
  return tensor.variable_data().view({-1});
}

// Returns the flat memory as bytes, because c10d cannot send every dtype.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return flat(tensor).view(at::kByte);
}

c10d::ReduceOp reduce_op(ReduceOp op, bool logical) {
  if (op == ReduceOp::kMin) return c10d::ReduceOp::MIN;
  return op == ReduceOp::kMax || logical ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

void check_op(const std::string& who, ReduceOp op) {
  if (op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kMin) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: reduce operation {} is none of 0 (sum), 1 (max), 2 (min)", who,
       static_cast<uint32_t>(op));
}

void check_reducible(const std::string& who, const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
    case at::kLong:
    case at::kInt:
    case at::kChar:
    case at::kByte:
    case at::kBool:
      return;
    default:
      fail(WEFT_INVALID_ARGUMENT,
           "{}: cannot reduce {}; the types are double, float, half, bfloat16, int64, int32, int8, uint8 and "
           "bool",
           who, at::toString(tensor.scalar_type()));
  }
}

std::string describe(const Group& group, const char* operation) {
  return group.who() + ": " + operation;
}

// The messages of one collective, to and from all peers at once. Each rank begins with the next one, so that
// not all send to the same rank first. Empty messages are not sent.
//
// A backend of a device does its work in order, and two ranks that both send first would wait forever. It
// takes the messages as one piece of work (coalescing, in c10d's words).
class Exchange {
 public:
  // `memory` is where the messages are.
  Exchange(Group& group, Work::Pending& pending, const at::Tensor& memory)
      : group_(group),
        pending_(pending),
        backend_(group.backend_of(memory)),
        together_(backend_.supportsCoalescing()),
        tag_(group.next_tag()) {
    pending.messages = true;
  }

  void send(const at::Tensor& bytes, int to) {
    if (bytes.numel() == 0) return;
    std::vector<at::Tensor> tensors{bytes};
    add(backend_.send(tensors, to, static_cast<int>(tag_)));
  }
  void receive(const at::Tensor& bytes, int from) {
    if (bytes.numel() == 0) return;
    std::vector<at::Tensor> tensors{bytes};
    add(backend_.recv(tensors, from, static_cast<int>(tag_)));
  }
  // Calls visit(rank) for each peer, which sends and receives.
  template <typename Visit>
  void with_each_peer(Visit visit) {
    comm::MessageGroup messages(together_ ? &backend_ : nullptr);
    for (int step = 1; step < group_.size(); ++step) visit((group_.rank + step) % group_.size());
    if (auto work = messages.end()) pending_.parts.push_back(std::move(work));
  }

 private:
  void add(c10::intrusive_ptr<c10d::Work> work) {
    if (!together_) pending_.parts.push_back(std::move(work));
  }

  Group& group_;
  Work::Pending& pending_;
  c10d::Backend& backend_;
  const bool together_;
  const uint32_t tag_;
};

}  // namespace

int Communicator::rank() const {
  return require(group_).rank;
}
int Communicator::size() const {
  return require(group_).size();
}
const std::string& Communicator::name() const {
  return require(group_).name;
}
int Communicator::rank_in_job(int rank) const {
  const Group& group = require(group_);
  comm::check_rank(group.who(), "the rank", rank, group.size());
  return static_cast<int>(group.members[static_cast<size_t>(rank)]);
}

Work Communicator::all_reduce(const at::Tensor& inout, ReduceOp op, bool control) const {
  Group& group = require(group_);
  if (group.absent) return finished();
  const std::string who = describe(group, "all_reduce");
  check_op(who, op);
  comm::check_tensor(who, "the tensor", inout);
  check_reducible(who, inout);
  if (group.size() == 1 || inout.numel() == 0) return finished();
  const auto bytes = static_cast<int64_t>(inout.nbytes());
  const bool logical = inout.scalar_type() == at::kBool;  // as bytes of 0 and 1, of which the maximum is "or"
  c10d::AllreduceOptions options;
  options.reduceOp = reduce_op(op, logical);
  options.timeout = group.rendezvous->timeout;
  const auto start = [&](Work::Pending& pending) {
    std::vector<at::Tensor> tensors{pending.lend(logical ? bytes_of(inout) : flat(inout))};
    pending.parts.push_back(group.backend_of(inout).allreduce(tensors, options));
  };
  Work work = group.issue("all_reduce", bytes, start, group_);
  comm::count_bytes(control ? Traffic::kControl : Traffic::kAllReduce,
                    2 * bytes * (group.size() - 1) / group.size());
  return work;
}

// Sends parts straight into the output. c10d's own all_gather would need a second buffer of the output's
// size.
Work Communicator::all_gather(const at::Tensor& output, const at::Tensor& input, bool control) const {
  Group& group = require(group_);
  if (group.absent) return finished();
  const std::string who = describe(group, "all_gather");
  comm::check_tensor(who, "input", input);
  comm::check_tensor(who, "output", output);
  comm::check_same_dtype(who, output, input);
  comm::check_parts(who, "output", output, "input", input, group.size());
  if (input.numel() == 0) return finished();
  comm::check_place(who, output, "input", input, group.rank);
  const auto bytes = static_cast<int64_t>(input.nbytes());
  const at::Tensor from = bytes_of(input), to = bytes_of(output);
  const auto part = [&](int rank) { return to.narrow(0, rank * bytes, bytes); };
  if (const at::Tensor own = part(group.rank); own.data_ptr() != from.data_ptr()) own.copy_(from);
  if (group.size() == 1) return finished();
  const auto start = [&](Work::Pending& pending) {
    Exchange exchange(group, pending, from);
    exchange.with_each_peer([&](int peer) {
      exchange.receive(part(peer), peer);
      exchange.send(from, peer);
    });
  };
  Work work = group.issue("all_gather", bytes * group.size(), start, group_);
  comm::count_bytes(control ? Traffic::kControl : Traffic::kAllGather, bytes * (group.size() - 1));
  return work;
}

// Sends each rank its parts, and each sums its own. c10d's own reduce_scatter on Gloo is an all_reduce, which
// sends twice the bytes.
Work Communicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) const {
  Group& group = require(group_);
  if (group.absent) return finished();
  const std::string who = describe(group, "reduce_scatter");
  check_op(who, op);
  comm::check_tensor(who, "input", input);
  comm::check_tensor(who, "output", output);
  comm::check_same_dtype(who, output, input);
  check_reducible(who, input);
  comm::check_parts(who, "input", input, "output", output, group.size());
  if (output.numel() == 0) return finished();
  comm::check_place(who, input, "output", output, group.rank);
  const int64_t count = output.numel();
  const at::Tensor from = flat(input), to = flat(output);
  const at::Tensor own = from.narrow(0, group.rank * count, count);
  if (group.size() == 1) {
    if (own.data_ptr() != to.data_ptr()) to.copy_(own);
    return finished();
  }
  const auto start = [&](Work::Pending& pending) {
    const at::Tensor received = at::empty({group.size() - 1, count}, from.options());
    std::vector<at::Tensor> parts(group.size());
    int place = 0;
    for (int rank = 0; rank < group.size(); ++rank)
      parts[rank] = rank == group.rank ? own : received[place++];
    Exchange exchange(group, pending, from);
    exchange.with_each_peer([&](int peer) {
      exchange.receive(parts[peer].view(at::kByte), peer);
      exchange.send(from.narrow(0, peer * count, count).view(at::kByte), peer);
    });
    pending.finish = [to, op, parts = std::move(parts), rank = group.rank] {
      comm::reduce_in_rank_order(to, parts, rank, op);
    };
  };
  const auto bytes = static_cast<int64_t>(input.nbytes());
  Work work = group.issue("reduce_scatter", bytes, start, group_);
  comm::count_bytes(Traffic::kReduceScatter, bytes / group.size() * (group.size() - 1));
  return work;
}

Work Communicator::broadcast(const at::Tensor& inout, int root, bool control) const {
  Group& group = require(group_);
  const std::string who = describe(group, "broadcast");
  comm::check_tensor(who, "the tensor", inout);
  comm::check_rank(who, "root", root, group.size());
  if (group.size() == 1 || inout.numel() == 0) return finished();
  c10d::BroadcastOptions options;
  options.rootRank = root;
  options.timeout = group.rendezvous->timeout;
  const auto start = [&](Work::Pending& pending) {
    std::vector<at::Tensor> tensors{pending.lend(bytes_of(inout))};
    pending.parts.push_back(group.backend_of(inout).broadcast(tensors, options));
  };
  const auto bytes = static_cast<int64_t>(inout.nbytes());
  Work work = group.issue("broadcast", bytes, start, group_);
  if (group.rank == root) comm::count_bytes(control ? Traffic::kControl : Traffic::kBroadcast, bytes);
  return work;
}

Work Communicator::all_to_all(const at::Tensor& output, const at::Tensor& input,
                              std::vector<int64_t> output_splits, std::vector<int64_t> input_splits) const {
  Group& group = require(group_);
  if (group.absent) return finished();
  const std::string who = describe(group, "all_to_all");
  comm::check_tensor(who, "input", input);
  comm::check_tensor(who, "output", output);
  comm::check_same_dtype(who, output, input);
  comm::check_apart(who, output, input);
  output_splits = comm::check_splits(who, "output", std::move(output_splits), output, group.size());
  input_splits = comm::check_splits(who, "input", std::move(input_splits), input, group.size());
  const int64_t row = comm::elements_per_row(input);
  if (comm::elements_per_row(output) != row) {
    fail(WEFT_INVALID_ARGUMENT, "{}: a row of output has {} elements, must have the {} of input's", who,
         comm::elements_per_row(output), row);
  }
  if (output_splits[group.rank] != input_splits[group.rank]) {
    fail(WEFT_INVALID_ARGUMENT, "{}: this rank sends itself {} rows, but takes {} from itself", who,
         input_splits[group.rank], output_splits[group.rank]);
  }
  const auto part = [&](const at::Tensor& tensor, const std::vector<int64_t>& splits, int rank) {
    const int64_t before = std::accumulate(splits.begin(), splits.begin() + rank, int64_t{0});
    return bytes_of(tensor.narrow(0, before, splits[rank]));
  };
  part(output, output_splits, group.rank).copy_(part(input, input_splits, group.rank));
  if (group.size() == 1) return finished();
  const auto start = [&](Work::Pending& pending) {
    Exchange exchange(group, pending, input);
    exchange.with_each_peer([&](int peer) {
      exchange.receive(part(output, output_splits, peer), peer);
      exchange.send(part(input, input_splits, peer), peer);
    });
  };
  Work work = group.issue("all_to_all", static_cast<int64_t>(input.nbytes()), start, group_);
  const int64_t rows = input.size(0) - input_splits[group.rank];
  comm::count_bytes(Traffic::kAllToAll, rows * row * static_cast<int64_t>(input.element_size()));
  return work;
}

}  // namespace weft

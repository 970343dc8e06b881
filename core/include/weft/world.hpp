// The ranks of a job and how they talk. Collectives are c10d's (Gloo on CPU) behind Communicator; one rank
// needs no network.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft {

enum class ReduceOp : uint32_t { kSum = 0, kMax = 1, kMin = 2 };

// A collective under way. Keeps its tensors alive. Dropping it neither waits nor cancels; only wait() tells
// that the tensors hold the result. Null for one that was done when it began (a group of one, an empty
// tensor).
class Work {
 public:
  struct Pending;
  Work() = default;
  explicit Work(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  explicit operator bool() const { return pending_ != nullptr; }
  // Until the tensors hold the result; any thread, any number of times. Throws UNAVAILABLE, with the group,
  // this rank, the collective and what happened, if a peer is gone or the timeout has passed. The group is of
  // no use after that.
  void wait();

 private:
  std::shared_ptr<Pending> pending_;
};

// A group of ranks. Every member issues the same sequence of collectives; starting one never waits. Tensors
// are contiguous, on the CPU, of the same sizes on every member, and never require grad. A group of one
// copies and returns at once. Any thread; a wrong argument throws INVALID_ARGUMENT before anything is sent.
class Communicator {
 public:
  struct Group;
  Communicator() = default;
  explicit Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  explicit operator bool() const { return group_ != nullptr; }

  int rank() const;
  int size() const;
  const std::string& name() const;

  // Sums of bool are "or". `control`: counted as "control", outside the formulas of the strategies.
  Work all_reduce(const at::Tensor& inout, ReduceOp op = ReduceOp::kSum, bool control = false) const;
  // Any type. `input` may be this rank's part of `output`.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, bool control = false) const;
  // Sums in the order of ranks, half and bfloat16 in fp32. `output` may be this rank's part of `input`. The
  // reduction itself happens in wait().
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op = ReduceOp::kSum) const;
  Work broadcast(const at::Tensor& inout, int root, bool control = false) const;
  // Splits are elements of the first dimension, one per rank; empty: equal parts.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::vector<int64_t> output_splits = {},
                  std::vector<int64_t> input_splits = {}) const;
  // Messages of one pair and tag arrive in the order they were sent. Tags are below 2^30.
  Work send(const at::Tensor& tensor, int to, uint32_t tag) const;
  Work recv(const at::Tensor& tensor, int from, uint32_t tag) const;
  void barrier() const;

  // A group of some members, by their ranks here. Blocks; all call it with the same members in the same
  // order. Null on a rank that is not among them.
  Communicator subset(const std::vector<uint32_t>& members) const;

  // Text from every rank, in the order of ranks. Blocks.
  std::vector<std::string> gather_text(const std::string& text) const;
  std::string broadcast_text(const std::string& text, int root) const;

 private:
  friend class World;
  std::shared_ptr<Group> group_;
};

// Bytes that this rank handed to collectives since the process began, as sent by an algorithm that moves no
// byte twice: all_reduce 2 (P-1)/P of the tensor, all_gather and reduce_scatter (P-1)/P of the whole,
// all_to_all what goes to others, broadcast (its root) and send the tensor. By collective, "control" apart.
std::map<std::string, int64_t> communicated_bytes();

// The ranks of this job. A copy is the same world.
class World {
 public:
  struct Ranks;
  World() = default;  // no world: launch() makes one
  explicit World(std::shared_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}

  int rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  bool is_master() const { return rank() == 0; }
  bool is_node_master() const { return local_rank() == 0; }
  const Communicator& communicator() const;  // all ranks

  // An N-dimensional mesh over the ranks, the last axis varying fastest. The product of `sizes` must be
  // size(). coordinate()[i] is this rank's place on axis i.
  std::vector<int> coordinate(const std::vector<int>& sizes) const;
  // The ranks that differ from this one in the axes given only. Blocks when the group is made; made once per
  // set of ranks.
  Communicator along(const std::vector<int>& sizes, const std::vector<int>& axes) const;

  void block_all() const { communicator().barrier(); }
  // `executor` runs `action` first, then all the others. Blocks. If it throws there, it runs nowhere else:
  // the others throw ABORTED with its text.
  void priority_execution(const std::function<void()>& action, int executor = 0) const;
  // A line of log on the master alone.
  void print_on_master(const std::string& line) const;

 private:
  std::shared_ptr<Ranks> ranks_;
};

inline constexpr std::chrono::milliseconds kDefaultTimeout{30 * 60 * 1000};

// Joins the job that torchrun, SLURM, Open MPI or `weft run` describes in the environment; one rank without
// any. Blocks until all ranks are here; UNAVAILABLE names those that did not come. `timeout` is also every
// collective's. Call it once per process. With several ranks it divides the cores among the ranks of the host
// unless OMP_NUM_THREADS is set, and ignores SIGPIPE unless it is handled: a write to a dead peer has to
// fail, not to end the process.
//
// Ranks talk over loopback where the master is, else over the interface that routes to it; GLOO_SOCKET_IFNAME
// names another.
World launch(std::chrono::milliseconds timeout = kDefaultTimeout);
World launch(int rank, int world_size, const std::string& host, int port,
             std::chrono::milliseconds timeout = kDefaultTimeout);

}  // namespace weft

// The ranks of a job and their collectives, which are c10d's (Gloo for tensors in host memory). One rank
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

// How a reduction combines the ranks' elements.
enum class ReduceOp : uint32_t { kSum = 0, kMax = 1, kMin = 2 };

// A collective in progress. It keeps its tensors alive. Destroying it neither waits nor cancels; the tensors
// hold the result after wait(). It is null where nothing had to be sent: in a group of one, and for an empty
// tensor.
class Work {
 public:
  struct Pending;
  Work() = default;
  explicit Work(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  explicit operator bool() const { return pending_ != nullptr; }
  // Blocks until the tensors hold the result. May be called from any thread, any number of times. Throws
  // UNAVAILABLE, naming the group, this rank, the collective and the cause, if a peer is gone or the timeout
  // has passed; the group is unusable after that.
  void wait();

 private:
  std::shared_ptr<Pending> pending_;
};

// A group of ranks. Every member issues the same sequence of collectives; starting one never waits. Tensors
// are contiguous, in host memory or on the device of the process, of the same sizes on every member, and do
// not require grad. Functions may be called from any thread, and throw INVALID_ARGUMENT for a wrong argument
// before anything is sent.
class Communicator {
 public:
  struct Group;
  Communicator() = default;
  explicit Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  explicit operator bool() const { return group_ != nullptr; }

  int rank() const;
  int size() const;
  const std::string& name() const;
  // Returns the number that a rank of this group has in the job.
  int rank_in_job(int rank) const;

  // Reduces in place. A sum of bool is a logical or. `control` marks bookkeeping, which communicated_bytes()
  // counts apart.
  Work all_reduce(const at::Tensor& inout, ReduceOp op = ReduceOp::kSum, bool control = false) const;
  // Concatenates the ranks' inputs, of any dtype. `input` may be this rank's part of `output`.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, bool control = false) const;
  // Gives each rank its part of the reduced input. Sums in the order of ranks, half precision in fp32.
  // `output` may be this rank's part of `input`. The reduction itself happens in wait().
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op = ReduceOp::kSum) const;
  Work broadcast(const at::Tensor& inout, int root, bool control = false) const;
  // Sends each rank its part of `input`. Splits count elements of the first dimension, one number per rank;
  // empty means equal parts.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::vector<int64_t> output_splits = {},
                  std::vector<int64_t> input_splits = {}) const;
  // Send and receive one tensor. Messages of one pair of ranks and one tag arrive in the order in which they
  // were sent. Tags are below 2^30.
  Work send(const at::Tensor& tensor, int to, uint32_t tag) const;
  Work recv(const at::Tensor& tensor, int from, uint32_t tag) const;
  // Sends `sent` and receives `received` at once. All ranks of the group call it at the same place, so that
  // they may send around circles of any ranks. Of an empty tensor there is no message.
  Work exchange(const at::Tensor& sent, int to, const at::Tensor& received, int from, uint32_t tag) const;
  void barrier() const;

  // Makes a group of some members, given by their ranks in this one; null on a rank that is not among them.
  // Blocks; every member of this group calls it with the same members in the same order.
  Communicator subset(const std::vector<uint32_t>& members) const;

  // Returns the texts of all ranks, in their order. Blocks.
  std::vector<std::string> gather_text(const std::string& text) const;
  std::string broadcast_text(const std::string& text, int root) const;

 private:
  friend class World;
  std::shared_ptr<Group> group_;
};

// Returns the bytes that this rank has sent since the process began, by collective, and bookkeeping as
// "control". They are counted as ring algorithms send them: an all_reduce 2 (P-1)/P of the tensor, all_gather
// and reduce_scatter (P-1)/P of the full tensor, all_to_all what goes to other ranks, broadcast (on its root)
// and send the tensor.
std::map<std::string, int64_t> communicated_bytes();

// All ranks of this job. A copy is the same world.
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

  // Returns this rank's coordinates on an N-dimensional mesh over the ranks, whose last axis varies fastest.
  // The product of `sizes` must be size().
  std::vector<int> coordinate(const std::vector<int>& sizes) const;
  // Returns the group of the ranks whose coordinates differ from this rank's on `axes` only. Blocks when the
  // group is made, once for each set of ranks.
  Communicator along(const std::vector<int>& sizes, const std::vector<int>& axes) const;

  void block_all() const { communicator().barrier(); }
  // Runs `action` on rank `executor` and then on all others. If it throws there, the others do not run it and
  // throw ABORTED with its text. Throws UNAVAILABLE if a rank is lost. Blocks.
  void priority_execution(const std::function<void()>& action, int executor = 0) const;
  // Logs a line on the master.
  void print_on_master(const std::string& line) const;

 private:
  std::shared_ptr<Ranks> ranks_;
};

// How long launch() and collectives wait for a peer: half an hour.
inline constexpr std::chrono::milliseconds kDefaultTimeout{30 * 60 * 1000};

// Joins the job that torchrun, SLURM, Open MPI or `weft run` describes in the environment; without one the
// job has one rank. The second form takes the ranks as arguments. Call it once per process. Blocks until all
// ranks have joined, and prints on stderr after 10 s which are missing; throws UNAVAILABLE naming them after
// `timeout`, which also applies to every collective. Leaves the handlers and masks of the program alone; in
// the threads that it starts, libtorch's included, all signals but those of faults are blocked.
//
// With several ranks, divides the cores of the host among its ranks unless OMP_NUM_THREADS is set. Ranks use
// the loopback device if the master is local, otherwise the interface that routes to it; GLOO_SOCKET_IFNAME
// names another.
World launch(std::chrono::milliseconds timeout = kDefaultTimeout);
World launch(int rank, int world_size, const std::string& host, int port,
             std::chrono::milliseconds timeout = kDefaultTimeout);

}  // namespace weft

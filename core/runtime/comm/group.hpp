// A group of ranks on backends of c10d, and its collectives in progress. Only this folder uses c10d.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "comm/collective_check.hpp"
#include "comm/dropped_works.hpp"
#include "comm/rendezvous.hpp"
#include "trace/trace.hpp"
#include "weft/world.hpp"

namespace weft {
namespace comm {

// Makes a group of `members`, the ranks in the job by rank in the group. This process is members[rank].
// Blocks until all members are connected. A group of one needs no rendezvous.
std::shared_ptr<Communicator::Group> make_group(std::shared_ptr<Rendezvous> rendezvous, std::string name,
                                                std::vector<uint32_t> members, int rank);

// Returns rank 0 of a pretended group of `size` ranks, for estimates: collectives of meta tensors end at once
// and send nothing.
Communicator absent_ranks(uint32_t size);

// Returns the group. Throws FAILED_PRECONDITION if there is none.
Communicator::Group& require(const std::shared_ptr<Communicator::Group>& group);

// Rewrites the text of an exception of c10d: "timed out after 20 s", "a peer closed the connection (...)", or
// its first line without the place in c10d's sources.
std::string what_happened(const std::string& text, std::chrono::milliseconds timeout);

}  // namespace comm

struct Communicator::Group {
  std::string name;
  std::vector<uint32_t> members;
  int rank = 0;
  bool absent = false;                           // made by absent_ranks()
  std::shared_ptr<comm::Rendezvous> rendezvous;  // null in a group of one, and if absent
  c10::intrusive_ptr<c10d::Backend> of_host;     // for tensors in host memory; null likewise
  c10::intrusive_ptr<c10d::Backend> of_device;   // null until the first collective of a tensor on the device

  std::mutex issuing;     // one thread at a time may start a collective; not held while waiting
  uint32_t begun = 0;     // how many collectives, messages left out; the same on every member
  uint32_t sequence = 0;  // numbers collectives that are made of sends; the same on every member
  uint32_t subsets = 0;   // how many subsets were made of this group
  std::mutex failing;
  std::string failure;  // of the first failure, after which the group is unusable. Guarded by `failing`
  comm::DroppedWorks dropped;

  int size() const { return static_cast<int>(members.size()); }
  // Returns the beginning of messages: "communicator "all": rank 0 of 2".
  std::string who() const;
  // Runs `start`, which adds c10d's works to `pending`, while no other thread starts anything in this group.
  // Throws UNAVAILABLE if the group has failed or c10d refuses, and what compare_collective() throws unless
  // these are messages between single ranks, which `is_message` says.
  Work issue(const std::string& operation, int64_t bytes,
             const std::function<void(Work::Pending& pending)>& start, const std::shared_ptr<Group>& self,
             bool is_message = false);
  // Returns the message of a failure, and keeps it if it is the first:
  // "communicator "all": rank 0 of 2: all_reduce of 4096 bytes: timed out after 20 s".
  std::string failed(const std::string& operation, int64_t bytes, const std::string& text);
  uint32_t next_tag();
  // Returns the backend for a tensor. Called while `issuing` is held.
  c10d::Backend& backend_of(const at::Tensor& tensor);
};

struct Work::Pending {
  std::shared_ptr<Communicator::Group> group;
  std::string operation;
  int64_t bytes = 0;
  std::vector<c10::intrusive_ptr<c10d::Work>> parts;
  bool messages = false;         // the parts are sends and receives, which c10d cancels when dropped
  std::function<void()> finish;  // runs in wait() after the parts have ended
  std::shared_ptr<at::Tensor> lent;
  std::optional<comm::InProgress> in_progress;
  std::optional<trace::Event> traced;  // from its start to the end of the first wait()

  // Returns a tensor on `memory` for c10d's thread, which keeps its tensors for a while after a part has
  // ended. After wait() the memory can be freed all the same. If this is dropped before, the thread keeps the
  // memory.
  at::Tensor lend(const at::Tensor& memory);

  std::mutex mutex;
  bool done = false;
  std::string failure;

  void wait();
  ~Pending();
};

}  // namespace weft

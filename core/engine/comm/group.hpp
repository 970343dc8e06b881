// A group of ranks on c10d's Gloo backend, and the works it has under way. Only this folder knows c10d.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "comm/dropped_works.hpp"
#include "comm/rendezvous.hpp"
#include "weft/world.hpp"

namespace weft {
namespace comm {

// A group of `members` (ranks in the job, ascending by rank in the group); this process is members[rank].
// Blocks until all members are here and connected. A group of one needs no rendezvous.
std::shared_ptr<Communicator::Group> make_group(std::shared_ptr<Rendezvous> rendezvous, std::string name,
                                                std::vector<uint32_t> members, int rank);

// The first of `size` ranks that are not there: collectives of tensors without memory (meta) are done at once
// and move nothing. For estimates.
Communicator absent_ranks(uint32_t size);

// The group of a communicator that has one; throws FAILED_PRECONDITION.
Communicator::Group& require(const std::shared_ptr<Communicator::Group>& group);

// "timed out after 20 s", "a peer closed the connection (...)", or the first line of c10d's text without its
// origin.
std::string what_happened(const std::string& text, std::chrono::milliseconds timeout);

}  // namespace comm

struct Communicator::Group {
  std::string name;
  std::vector<uint32_t> members;
  int rank = 0;
  bool absent = false;                                 // of ranks that are not there
  std::shared_ptr<comm::Rendezvous> rendezvous;        // null in a group of one, and of absent ranks
  c10::intrusive_ptr<c10d::ProcessGroupGloo> backend;  // likewise

  std::mutex issuing;     // c10d wants one thread at a time; held while starting, never while waiting
  uint32_t sequence = 0;  // of the collectives made of sends: the same on every member
  uint32_t subsets = 0;   // made from this group so far
  std::mutex failing;
  std::string failure;  // the first; a group that failed once stays so. Guarded by `failing`
  comm::DroppedWorks dropped;

  int size() const { return static_cast<int>(members.size()); }
  // "communicator "all": rank 0 of 2".
  std::string who() const;
  // Runs `start`, which adds the parts, while no other thread starts anything here. Throws UNAVAILABLE if the
  // group has failed or c10d refuses.
  Work issue(const std::string& operation, int64_t bytes,
             const std::function<void(Work::Pending& pending)>& start, const std::shared_ptr<Group>& self);
  // "communicator "all": rank 0 of 2: all_reduce of 4096 bytes: timed out after 20 s", remembered if it is
  // the first.
  std::string failed(const std::string& operation, int64_t bytes, const std::string& text);
  uint32_t next_tag();
};

struct Work::Pending {
  std::shared_ptr<Communicator::Group> group;
  std::string operation;
  int64_t bytes = 0;
  std::vector<c10::intrusive_ptr<c10d::Work>> parts;
  bool messages = false;         // parts are sends and receives: cancelled by c10d when dropped
  std::function<void()> finish;  // what is left to do here once the parts are done
  std::shared_ptr<at::Tensor> lent;

  // `memory` for a part that c10d's own thread runs: that thread keeps its tensors for a while after the end,
  // but whoever has waited must be able to free them. What is dropped before the end stays with the thread.
  at::Tensor lend(const at::Tensor& memory);

  std::mutex mutex;
  bool done = false;
  std::string failure;

  void wait();
  ~Pending();
};

}  // namespace weft

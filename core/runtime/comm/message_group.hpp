// Several messages as one piece of work (coalescing, in c10d's words).
#pragma once

#include <exception>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

namespace weft::comm {

// Begins a group of messages, if there is a backend, and ends it whatever happens: a group that stayed open
// would take later collectives in.
class MessageGroup {
 public:
  explicit MessageGroup(c10d::Backend* backend) : backend_(backend) {
    if (backend_ != nullptr) backend_->startCoalescing();
  }
  ~MessageGroup() {
    try {
      end();
    } catch (const std::exception&) {  // the exception that leaves the group open is the one to tell
    }
  }
  MessageGroup(const MessageGroup&) = delete;

  // Returns the work of the group; null if there is none.
  c10::intrusive_ptr<c10d::Work> end() {
    c10d::Backend* const backend = std::exchange(backend_, nullptr);
    return backend != nullptr ? backend->endCoalescing() : nullptr;
  }

 private:
  c10d::Backend* backend_;  // null after the end
};

}  // namespace weft::comm

// Steps that may fail on one rank and then fail on all.
#pragma once

#include <functional>

#include "weft/world.hpp"

namespace weft::checkpoint {

// Runs `action` on every rank. If it throws anywhere, the first such rank's error is thrown on all of them,
// with its number where the own one was another or none, after all have come here. Collective.
void on_every_rank(const Communicator& ranks, const std::function<void()>& action);
// The same with an action of the master alone.
void on_master(const Communicator& ranks, const std::function<void()>& action);

// What `action` throws, to be thrown later: where every rank has to come to the end of a sequence of
// collectives.
class Deferred {
 public:
  void run(const std::function<void()>& action);  // not after a failure
  void rethrow() const;

 private:
  std::exception_ptr failure_;
};

}  // namespace weft::checkpoint

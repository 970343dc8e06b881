// Finds collectives that do not match between the ranks of a group, and names them where Gloo ends the
// process.
#pragma once

#include <cstdint>
#include <string>

#include "weft/world.hpp"

namespace weft::comm {

// As long as one exists, a collective that begins in a call of a plugin (plugin_call.hpp) is compared with
// the one that the ranks beside this one in the group have begun as the same number. Costs two or three
// round trips to the store on the master for each.
class CollectiveCheck {
 public:
  CollectiveCheck();
  ~CollectiveCheck();
  CollectiveCheck(const CollectiveCheck&) = delete;
};

// Throws INTERNAL if a rank beside this one has begun another collective as number `number` of the group. Of
// two ranks, the later one finds it. Does nothing unless collectives are compared.
void compare_collective(const Communicator::Group& group, uint32_t number, const std::string& operation,
                        int64_t bytes);

// Keeps a collective among those that are in progress, for as long as it lives. `group` and `operation` must
// outlive it.
class InProgress {
 public:
  InProgress(const Communicator::Group& group, const std::string& operation, int64_t bytes);
  ~InProgress();
  InProgress(const InProgress&) = delete;

  // Returns "NAME: in FUNCTION: communicator "all": rank 0 of 2: all_reduce of 4096 bytes".
  std::string text() const;

 private:
  const Communicator::Group& group_;
  const std::string& operation_;
  const int64_t bytes_;
  const std::string caller_;  // of a plugin; empty: none
};

// From now on, where a thread of Gloo ends the process because a message has another size than its collective
// expects, the process ends with exit code 1 and a message that names the collectives in progress. So it does
// where an exception ends it that tells a plugin's thread of a broken contract (plugin_call.hpp).
void name_collectives_at_the_end();

}  // namespace weft::comm

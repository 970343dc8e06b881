// Sees to it that nothing of a job outlives a launcher that is killed. The kernel kills the ranks themselves
// then (PR_SET_PDEATHSIG), but not what they started: where a rank is a shell, the program would stay behind.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/descriptor.hpp"

namespace weft::launch {

class Keeper {
 public:
  // Forks a process that waits for this one's end and then calls kill_job(mark). Throws RESOURCE_EXHAUSTED.
  explicit Keeper(const std::string& mark);
  // Dismisses it.
  ~Keeper();
  Keeper(const Keeper&) = delete;

 private:
  pid_t process_ = -1;
  Descriptor line_;  // closed by the kernel when this process ends, however it ends
};

}  // namespace weft::launch

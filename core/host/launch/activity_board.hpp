// The launcher's side of activity.hpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/descriptor.hpp"

namespace weft::launch {

// A rank's note as the launcher finds it.
struct ActivityNote {
  pid_t process = -1;  // the one that wrote it, where a shell started the program
  std::chrono::nanoseconds age{};
  std::string text;
};

// The launcher's side: memory with room for one note of each rank.
class ActivityBoard {
 public:
  ActivityBoard();  // throws RESOURCE_EXHAUSTED

  int fd() const { return memory_.get(); }                   // for the ranks to inherit
  const std::string& variable() const { return variable_; }  // WEFT_ACTIVITY_FD=...
  std::optional<ActivityNote> read(int rank) const;
  // Whether this process of the rank has work to finish, or had it when it ended (Unfinished).
  bool has_unfinished(int rank, pid_t process) const;

 private:
  Descriptor memory_;
  std::string variable_;
};

}  // namespace weft::launch

// A folder for the files of a suite, which goes with everything in it when the suite ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace weft::contract {

class Scratch {
 public:
  // Throws UNAVAILABLE if the system makes none.
  Scratch();
  ~Scratch();  // in a fork of the process it does nothing
  Scratch(const Scratch&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  const pid_t process_;
  std::filesystem::path folder_;
};

}  // namespace weft::contract

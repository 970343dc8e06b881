// Prints the progress of `weft train` to stderr: a bar on a terminal, otherwise a line every few seconds.
#pragma once

#include <chrono>
#include <cstdint>

#include "weft/job.hpp"

namespace weft::command {

class Progress {
 public:
  Progress(int64_t first_step, int64_t total_steps, bool speaks);
  ~Progress();
  void step(const StepResult& result, int64_t step, int64_t peak_bytes);

 private:
  int64_t first_, total_;
  bool speaks_, terminal_, open_line_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace weft::command

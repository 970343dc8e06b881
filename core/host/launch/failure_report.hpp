// How a rank that fails tells the launcher why, before the others notice that it is gone. `weft run` and
// `weft train -n` give their ranks one socket in WEFT_REPORT_FD; torchrun, srun and mpirun give none, and the
// report goes to stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/launch/descriptor.hpp"

namespace weft::launch {

// True in a rank whose launcher listens. A program between the two that closed the descriptor makes it false.
bool has_report_channel();

// Sends one record, whole or not at all, so that the reports of several ranks never mix and keep their order;
// or prints `weft: rank 1 failed: TEXT`. Text over 16 KiB is cut. Never throws. Call it once, just before the
// rank exits: the launcher ends the other ranks at once, and this one if it has not exited 3 s later. Any
// thread.
void report_failure(int rank, std::string_view text) noexcept;

struct FailureReport {
  int rank = -1;
  std::string text;
};

// The launcher's side.
class ReportChannel {
 public:
  ReportChannel();  // throws RESOURCE_EXHAUSTED

  int fd() const { return own_.get(); }                      // readable when there is a report
  int rank_fd() const { return ranks_.get(); }               // for the ranks to inherit
  const std::string& variable() const { return variable_; }  // WEFT_REPORT_FD=...
  std::optional<FailureReport> read();  // the next one, never waits; what is no report is dropped

 private:
  Descriptor own_, ranks_;
  std::string variable_;
};

}  // namespace weft::launch

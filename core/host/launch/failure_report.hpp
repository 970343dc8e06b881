// What a rank tells the launcher: why it fails, before the others notice that it is gone, and that it was
// asked to stop. `weft run` and `weft train -n` give their ranks one socket in WEFT_REPORT_FD; torchrun, srun
// and mpirun give none, and failures go to stderr.
#pragma once

#include <sys/types.h>
#include <weft/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"

namespace weft::launch {

// True in a rank whose launcher listens. A program between the two that closed the descriptor makes it false.
bool has_report_channel();

// Sends one record, whole or not at all, so that the reports of several ranks never mix and keep their order;
// or prints `weft: rank 1 failed: TEXT`. Text over 16 KiB is cut. UNAVAILABLE says that a peer was lost:
// another rank's end may be the reason. Never throws. Call it once, just before the rank exits: the launcher
// ends the other ranks at once, and this one if it has not exited 3 s later. Any thread.
void report_failure(int rank, weft_status status, std::string_view text) noexcept;

// Tells the launcher that this rank has said on stderr why the job ends with exit code 1, so that the
// launcher need not explain it. Never throws.
void report_explained(int rank) noexcept;

// Finds the channel for the functions below, which may not look for it.
void prepare_signal_reports(int rank);
// What rank_signals.hpp says of report_stop_signal().
void report_signal_in_handler(int signal, pid_t sender) noexcept;
// As report_failure() for signal handlers: `text` of `size` bytes, at most 1 KiB.
void report_failure_in_handler(weft_status status, const char* text, size_t size) noexcept;

struct Report {
  enum class Kind : int32_t { kFailure, kSignal, kExplained };
  Kind kind = Kind::kFailure;
  int rank = -1;
  int number = 0;    // the weft_status of a failure; the signal
  pid_t sender = 0;  // of the signal
  std::string text;  // of a failure
};

// The launcher's side.
class ReportChannel {
 public:
  ReportChannel();  // throws RESOURCE_EXHAUSTED

  int fd() const { return own_.get(); }                      // readable when there is a report
  int rank_fd() const { return ranks_.get(); }               // for the ranks to inherit
  const std::string& variable() const { return variable_; }  // WEFT_REPORT_FD=...
  std::optional<Report> read();  // the next one, never waits; what is no report is dropped

 private:
  Descriptor own_, ranks_;
  std::string variable_;
};

}  // namespace weft::launch

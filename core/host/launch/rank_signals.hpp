// Handles signals in a rank: turns those that stand for a failed call into errors, and tells the launcher of
// those that ask the rank to stop.
#pragma once

#include <sys/types.h>

namespace weft {

// From now on, unless the program has a handler of its own or ignores the signal:
// SIGPIPE, in a job of several ranks, is ignored, so that a write to a dead peer fails;
// SIGBUS in memory of a mapped file ends the process with code 1 and report_failure(), naming the file: it
// became shorter, or its disk failed.
void prefer_errors_to_signals(int rank, int world_size);

// Finds the launcher, if there is one, for report_stop_signal(). prefer_errors_to_signals() does it, too.
void prepare_stop_reports(int rank);

// Tells the launcher that this rank got `signal` from process `sender` and is going to stop. For signal
// handlers.
void report_stop_signal(int signal, pid_t sender) noexcept;

// What failure_report.hpp says of launch::report_explained().
void report_explained(int rank) noexcept;

// Ignores SIGPIPE unless the program has a handler, so that it continues when nobody reads its output.
void ignore_broken_pipes();

// Ignores SIGXFSZ unless the program has a handler, so that a write beyond the limit of file sizes
// (`ulimit -f`) fails with EFBIG. For the main function of a command.
void ignore_file_size_signal();
// Takes that back. For a child that is to run another program; safe between fork and exec.
void restore_file_size_signal() noexcept;

}  // namespace weft

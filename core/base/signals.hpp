// Signals: their names, whether they are ignored, and how a thread is kept free of their handlers.
#pragma once

#include <signal.h>

#include <string>

namespace weft {

// The signals that ask a job to stop after the current step.
inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A signal to a process and to its group, as timeout(1) and terminals send it, counts once within this time.
inline constexpr int kDoubledSignalMs = 100;

// Returns the name of a signal: "SIGKILL".
std::string signal_name(int number);

// Returns true if this process ignores the signal, as under nohup.
bool is_ignored(int number);

// Returns true if the signal has its default action.
bool has_default_action(int number);

// Ends the process by the default action of the signal, in whichever thread and whatever the masks are. For
// signals whose default action ends a process. Safe in a handler.
void end_by_signal(int number);

// Blocks signals in the calling thread until the end of this object. A thread that is started meanwhile
// blocks them for good.
//
// Weft starts its threads and libtorch's like this, so that no handler of the application runs on the stack
// of a computation: the code that oneDNN generates for matrix products keeps data below the stack pointer,
// where the kernel would write the handler's frame. A write to a closed socket, or beyond the limit of file
// sizes, only fails meanwhile: the signal that it causes is discarded.
class BlockSignals {
 public:
  BlockSignals();                     // all but those of faults, such as SIGSEGV
  explicit BlockSignals(int number);  // one
  BlockSignals(const BlockSignals&) = delete;
  ~BlockSignals();

 private:
  sigset_t before_;
};

}  // namespace weft

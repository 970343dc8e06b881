// Signals: their names, whether they are ignored, and how a thread is kept free of their handlers.
#pragma once

#include <signal.h>

#include <string>

namespace weft {

// The signals that ask a job to stop after the current step.
inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

// The signals by which the kernel, or abort(), reports what a thread itself did.
inline constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

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

// Blocks signals in the calling thread while the object exists. Threads that are started meanwhile inherit
// the mask, and keep it.
//
// Weft starts its own threads and libtorch's under this guard, so that a signal handler of the application
// never runs on the stack of a thread that computes. The kernel writes the handler's frame below the stack
// pointer, where oneDNN's generated code for matrix products keeps data.
//
// The destructor discards a SIGPIPE or SIGXFSZ that this thread caused meanwhile: the write has returned an
// error.
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

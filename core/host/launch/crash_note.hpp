// Names the plugin that crashes.
#pragma once

namespace weft {

// If this thread crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT) while the object exists, the text is
// reported as the failure of the rank, or written to standard error, before the signal ends the process.
// A signal that has a handler already, of an application or a sanitizer, is left to it. `text` must live as
// long as the object. Objects may be nested: the last one counts. Costs a few system calls.
class CrashNote {
 public:
  explicit CrashNote(const char* text);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;

 private:
  const char* outer_;
};

}  // namespace weft

// Names the plugin that crashes.
#pragma once

#include <memory>

namespace weft {

// If this thread crashes (kCrashSignals) while the object exists, the text is reported as the failure of the
// rank, or written to standard error. Then the signal goes its way: to the handler that the application or a
// sanitizer has set, or by its default action. An ignored signal stays ignored. The thread gets an alternate
// stack (sigaltstack) if it has none, so that an overflow of its stack is named, too. `text` must live as
// long as the object. Objects nest: the last one of a thread counts. Costs a few system calls.
class CrashNote {
 public:
  explicit CrashNote(const char* text);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;

 private:
  const char* const outer_;
  std::unique_ptr<char[]> stack_;  // null: the thread had one
};

}  // namespace weft

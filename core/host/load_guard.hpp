// Watches over the code of a library that runs while the host loads it: its constructors, its query, its
// tables and its init.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "host/launch/crash_note.hpp"
#include "host/launch/early_exit.hpp"
#include "host/loader.hpp"

namespace weft::host {

// As long as one exists, whatever ends this process is told with the name of the library:
// exit() and quick_exit() become exit code 1; a crash of this thread is named (CrashNote); if the library
// does not return in time (loading.h), the process ends with exit code 1. The thread that made it destroys
// it; a library that loads another one nests them.
class LoadGuard {
 public:
  explicit LoadGuard(const LoadedLibrary& library);
  ~LoadGuard();
  LoadGuard(const LoadGuard&) = delete;

  // Says what runs from now on: "its init".
  void enter(const char* stage);

 private:
  struct Watch;

  const std::string library_, outer_note_;
  LoadGuard* const outer_;
  std::string crash_text_;
  std::optional<CrashNote> crash_note_;
  std::unique_ptr<Watch> watch_;
  const launch::ExitGuard no_exit_;
};

}  // namespace weft::host

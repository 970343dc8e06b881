// Which function of a plugin a thread runs: for messages, and to check that the plugin calls the host only
// where and when it may.
#pragma once

#include <string>

namespace weft {

// As long as one exists, this thread runs a function of a plugin. They nest.
class PluginCall {
 public:
  // Both texts must outlive it. `may_communicate`: the function may begin collectives.
  PluginCall(const std::string& plugin, const char* function, bool may_communicate);
  ~PluginCall();
  PluginCall(const PluginCall&) = delete;

  // Returns the innermost one of this thread; null if there is none.
  static const PluginCall* of_thread();
  // Returns "NAME: in FUNCTION", and nothing without a call: what messages of this thread begin with.
  static std::string text_of_thread();

  const std::string& plugin() const { return plugin_; }
  const char* function() const { return function_; }
  bool may_communicate() const { return may_communicate_; }

 private:
  const std::string& plugin_;
  const char* const function_;
  const bool may_communicate_;
  const PluginCall* const outer_;
};

// As long as one exists, this is the thread on which the host runs steps, where hooks that a plugin gave to
// libtorch may run, too.
class StepThread {
 public:
  StepThread();
  ~StepThread();
  StepThread(const StepThread&) = delete;
};

// Whether the calls of plugins are checked: after check_contract(), or with WEFT_CHECK_CONTRACT=1. Whoever
// wants it says so before the plugin asks for services.
bool checks_contract();
void check_contract();

// Throws FAILED_PRECONDITION if a plugin must not call this service here: outside of the threads of its calls
// and of steps, or, if it is a collective, in a function that may not communicate. Keeps the text, too.
void require_contract(const char* service, bool is_collective);
// The same for services that can return no error: keeps the text.
void note_contract(const char* service) noexcept;
// Returns the first text that was kept since the last call; "" if there is none.
std::string take_broken_contract();
// Throws that text as FAILED_PRECONDITION; does nothing if there is none.
void throw_broken_contract();

}  // namespace weft

#include "plugin_call.hpp"

#include <atomic>
#include <mutex>
#include <utility>

#include "base/environment.hpp"
#include "base/text.hpp"

namespace weft {
namespace {

thread_local const PluginCall* innermost = nullptr;
thread_local int steps = 0;

std::atomic<bool>& switched() {
  static std::atomic<bool> on = environment_flag("WEFT_CHECK_CONTRACT");
  return on;
}

struct Kept {
  std::mutex mutex;
  std::string last;    // the plugin that was called last
  std::string broken;  // the first text; empty: none
};

Kept& kept() {
  static auto* const made = new Kept;  // never destroyed: a plugin's thread may run until the end
  return *made;
}

// Returns what is wrong with a call of this thread; "" if it may be.
std::string wrong(const char* service, bool is_collective) {
  if (innermost == nullptr && steps == 0) {
    const std::lock_guard lock(kept().mutex);
    return fmt::format(
        "{}: {} was called on a thread of the plugin's own; call it on the thread on which the host calls "
        "the "
        "plugin, before that call returns (weft/strategy.h)",
        kept().last.empty() ? "a plugin" : kept().last, service);
  }
  if (!is_collective || innermost == nullptr || innermost->may_communicate()) return "";
  return fmt::format(
      "{}: {} was called in {}, which must begin no collective, because not all ranks call it "
      "at the same time (weft/strategy.h)",
      innermost->plugin(), service, innermost->function());
}

void keep(const std::string& text) {
  const std::lock_guard lock(kept().mutex);
  if (kept().broken.empty()) kept().broken = text;
}

}  // namespace

PluginCall::PluginCall(const std::string& plugin, const char* function, bool may_communicate)
    : plugin_(plugin),
      function_(function),
      may_communicate_(may_communicate),
      outer_(std::exchange(innermost, this)) {
  if (!checks_contract()) return;
  const std::lock_guard lock(kept().mutex);
  kept().last = plugin;
}

PluginCall::~PluginCall() {
  innermost = outer_;
}

const PluginCall* PluginCall::of_thread() {
  return innermost;
}

std::string PluginCall::text_of_thread() {
  return innermost == nullptr ? "" : fmt::format("{}: in {}", innermost->plugin(), innermost->function());
}

StepThread::StepThread() {
  ++steps;
}

StepThread::~StepThread() {
  --steps;
}

bool checks_contract() {
  return switched();
}

void check_contract() {
  switched() = true;
}

void require_contract(const char* service, bool is_collective) {
  const std::string text = wrong(service, is_collective);
  if (text.empty()) return;
  keep(text);
  throw Error(WEFT_FAILED_PRECONDITION, text);
}

void note_contract(const char* service) noexcept try {
  if (const std::string text = wrong(service, false); !text.empty()) keep(text);
} catch (...) {  // out of memory: the plugin has other troubles
}

std::string take_broken_contract() {
  const std::lock_guard lock(kept().mutex);
  return std::exchange(kept().broken, "");
}

void throw_broken_contract() {
  if (const std::string text = take_broken_contract(); !text.empty())
    throw Error(WEFT_FAILED_PRECONDITION, text);
}

}  // namespace weft

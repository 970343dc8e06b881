#include "device/graph.hpp"

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <atomic>

#include "base/text.hpp"
#include "device/device.hpp"

namespace weft::device {

namespace {

std::atomic<bool> capturing = false;  // in the process: autograd has threads of its own

[[noreturn]] void refuse(const char* why) {
  fail(WEFT_UNIMPLEMENTED,
       "enable_cuda_graph: a micro-batch of this model cannot be captured: {}; leave the option out", why);
}

}  // namespace

std::unique_ptr<GraphCapturer> make_graph_capturer() {
  const Kind& kind = current().kind();
  if (kind.make_graph_capturer == nullptr)
    fail(WEFT_UNIMPLEMENTED, "enable_cuda_graph is true, but the device {} has no graphs; leave it out",
         kind.name);
  return kind.make_graph_capturer();
}

std::unique_ptr<Graph> capture(GraphCapturer& capturer, const std::function<void()>& give) {
  capturing = true;
  const auto end = c10::make_scope_exit([]() noexcept { capturing = false; });
  try {
    return capturer.capture(give);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {  // of the device, such as a wait of the host that nobody refused before
    refuse(error.what_without_backtrace());
  }
}

void refuse_in_graph(const char* what) {
  if (capturing.load(std::memory_order_relaxed)) refuse(what);
}

}  // namespace weft::device

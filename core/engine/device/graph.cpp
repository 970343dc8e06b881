#include "device/graph.hpp"

#include <c10/util/ScopeExit.h>

#include <atomic>

#include "base/text.hpp"
#include "device/device.hpp"

namespace weft::device {

namespace {

std::atomic<bool> recording = false;  // in the process: autograd has threads of its own

}  // namespace

std::unique_ptr<GraphRecorder> make_graph_recorder() {
  const Kind& kind = current().kind();
  if (kind.make_graph_recorder == nullptr)
    fail(WEFT_UNIMPLEMENTED, "enable_cuda_graph is true, but the device {} has no graphs; leave it out",
         kind.name);
  return kind.make_graph_recorder();
}

std::unique_ptr<Graph> record(GraphRecorder& recorder, const std::function<void()>& give) {
  recording = true;
  const auto end = c10::make_scope_exit([]() noexcept { recording = false; });
  return recorder.record(give);
}

void refuse_in_graph(const char* what) {
  if (recording.load(std::memory_order_relaxed))
    fail(WEFT_UNIMPLEMENTED,
         "enable_cuda_graph: a micro-batch of this model cannot be recorded: {}; leave the option out", what);
}

}  // namespace weft::device

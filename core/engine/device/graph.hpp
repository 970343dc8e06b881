// Captures CUDA graphs (weft/device_kind.hpp), and refuses what must not happen during a capture.
#pragma once

#include <functional>
#include <memory>

#include "weft/device_kind.hpp"

namespace weft::device {

// Returns what captures graphs on the current device. Throws UNIMPLEMENTED naming the device if it has none.
std::unique_ptr<GraphRecorder> make_graph_recorder();

// Captures the work of `give`. Throws what `give` throws, also by refuse_in_graph(). One thread at a time.
std::unique_ptr<Graph> record(GraphRecorder& recorder, const std::function<void()>& give);

// Throws UNIMPLEMENTED during a capture. `what` completes "it cannot be recorded: ". Functions that
// synchronize with the device, copy between host and device, or return other values at every call begin with
// it, because a replay would not repeat them.
void refuse_in_graph(const char* what);

}  // namespace weft::device

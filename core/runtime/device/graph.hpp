// Captures CUDA graphs (weft/device_kind.hpp), and refuses what must not happen during a capture.
#pragma once

#include <functional>
#include <memory>

#include "weft/device_kind.hpp"

namespace weft::device {

// Returns what captures graphs on the current device. Throws UNIMPLEMENTED naming the device if it has none.
std::unique_ptr<GraphCapturer> make_graph_capturer();

// Captures the work of `give`. Throws what `give` throws, and UNIMPLEMENTED if the device cannot capture it.
// One thread at a time.
std::unique_ptr<Graph> capture(GraphCapturer& capturer, const std::function<void()>& give);

// Throws UNIMPLEMENTED during a capture. `what` completes "it cannot be captured: ". Functions that
// synchronize with the device, copy between host and device, or return other values at every call begin with
// it, because a replay would not repeat them.
void refuse_in_graph(const char* what);

}  // namespace weft::device

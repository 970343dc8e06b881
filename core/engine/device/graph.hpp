// Graphs of the device (weft/device_kind.hpp): what the host must not do while one is recorded.
#pragma once

#include <functional>
#include <memory>

#include "weft/device_kind.hpp"

namespace weft::device {

// Returns what records graphs on the current device. Throws UNIMPLEMENTED naming the device if it has none.
std::unique_ptr<GraphRecorder> make_graph_recorder();

// Records the work of `give`. Throws what `give` throws, and what refuse_in_graph() does. One thread at a
// time.
std::unique_ptr<Graph> record(GraphRecorder& recorder, const std::function<void()>& give);

// Throws UNIMPLEMENTED if a graph is being recorded. `what` completes "it cannot be recorded: ". Whatever
// depends on the host, or on the moment, asks this first.
void refuse_in_graph(const char* what);

}  // namespace weft::device

// CUDA graphs.
#pragma once

#include <memory>

#include "weft/device_kind.hpp"

namespace weft::cuda {

std::unique_ptr<device::GraphRecorder> make_graph_recorder();

}  // namespace weft::cuda

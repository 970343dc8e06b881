// CUDA graphs.
#pragma once

#include <memory>

#include "weft/device_kind.hpp"

namespace weft::cuda {

std::unique_ptr<device::GraphCapturer> make_graph_capturer();

}  // namespace weft::cuda

// The device "cuda": NVIDIA GPUs. Memory, streams and operations are libtorch's, which its CUDA libraries
// register when they are loaded.
#include <string_view>

#include "driver.hpp"
#include "graph.hpp"
#include "nccl.hpp"
#include "weft/define_plugin.h"
#include "weft/device_kind.hpp"

namespace weft::cuda {

namespace {

constexpr device::Kind kKind = {sizeof(device::Kind), "cuda", c10::DeviceType::CUDA, "nccl", &make_nccl,
                                &count, &missing, &limit_memory, &failure, &facts,
                                // What cuBLAS documents for reproducible results with several streams.
                                "CUBLAS_WORKSPACE_CONFIG", ":4096:8 :16:8", &allow_tf32, &make_graph_capturer,
                                &allocate_pinned};

const device::Kind* find(std::string_view name) {
  return name == kKind.name ? &kKind : nullptr;
}

const void* find_factory(const weft_plugin*, weft_str id) {
  static constexpr device::KindFactory kFactory = {sizeof(device::KindFactory), &find};
  return std::string_view(id.data, id.size) == device::kKindFactory ? &kFactory : nullptr;
}

}  // namespace

}  // namespace weft::cuda

WEFT_DEFINE_PLUGIN(WEFT_TIER_NATIVE, WEFT_TORCH_TAG, weft::cuda::find_factory)

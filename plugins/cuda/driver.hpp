// The NVIDIA driver and its GPUs, as this process sees them.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft::cuda {

// The functions of device::Kind (weft/device_kind.hpp).
int count();
std::string missing();
void limit_memory(c10::DeviceIndex index, int64_t bytes);
std::vector<std::pair<std::string, std::string>> facts();
std::string allow_tf32(c10::DeviceIndex index);
c10::DataPtr allocate_pinned(size_t bytes);

}  // namespace weft::cuda

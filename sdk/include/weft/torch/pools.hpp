// Pools of memory, for strategies that place what they hold. Contracts: weft/pools.h.
#pragma once

#include <c10/core/GradMode.h>

#include <string>
#include <utility>

#include "../pools.h"
#include "dtypes.hpp"
#include "handles.hpp"

namespace weft {
inline namespace sdk_v0 {

// The host's table. Throws UNIMPLEMENTED if this host has none.
inline const weft_pool_services& pools() {
  static const auto* const table =
      static_cast<const weft_pool_services*>(host.host->get_extension(str(WEFT_POOL_SERVICES)));
  if (table == nullptr)
    throw Error(WEFT_UNIMPLEMENTED, "this host has no pools of memory (" WEFT_POOL_SERVICES ")");
  return *table;
}

// A flat tensor without values in a pool, WEFT_POOL_*. Its storage may be resized, and stays there.
inline at::Tensor allocate(uint32_t pool, int64_t elements, at::ScalarType type) {
  at::Tensor made;
  check(pools().allocate(pool, dtype_code(type), elements, reinterpret_cast<weft_at_tensor*>(&made),
                         current_error));
  return made;
}

// Copies values between tensors of equal shapes in any pools, and converts the dtype.
inline void copy_values(const at::Tensor& to, const at::Tensor& from) {
  check(pools().copy(handle(to), handle(from), current_error));
}

// Adds `arrived` to `kept`, flat as well, which lies in pool `home`; where there is none it is made, of
// `dtype`. What crosses from one pool to another needs room for a copy there.
inline void keep_sum(at::Tensor& kept, const at::Tensor& arrived, uint32_t home, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  if (kept.defined() && home == WEFT_POOL_ACCELERATOR) {
    kept.add_(arrived);
    return;
  }
  const at::Tensor before = std::exchange(kept, allocate(home, arrived.numel(), dtype));
  copy_values(kept, arrived);
  if (before.defined()) kept.add_(before);
}

// Returns what a pool has and what is in use.
inline weft_pool_info pool_info(uint32_t pool) {
  weft_pool_info info{};
  info.struct_size = sizeof(info);
  check(pools().info(pool, &info, current_error));
  return info;
}

}  // namespace sdk_v0
}  // namespace weft

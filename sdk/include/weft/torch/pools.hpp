// Memory pools, for strategies that choose where tensors are stored. Contracts: weft/pools.h.
#pragma once

#ifndef WEFT_TORCH_MIN
#include <c10/core/GradMode.h>
#endif

#include <string>

#include "../pools.h"
#include "communicator.hpp"
#include "dtypes.hpp"
#include "handles.hpp"

namespace weft::plugin {
inline namespace v0 {

// Returns the host's table. Throws UNIMPLEMENTED if the host has none.
inline const weft_pool_services& pools() {
  static const auto* const table =
      static_cast<const weft_pool_services*>(host.host->get_extension(str(WEFT_POOL_SERVICES)));
  if (table == nullptr)
    throw Error(WEFT_UNIMPLEMENTED, "this host has no pools of memory (" WEFT_POOL_SERVICES ")");
  return *table;
}

// Returns an uninitialised tensor with one dimension in a pool, WEFT_POOL_*. Resizing its storage keeps it
// there.
inline Tensor allocate(uint32_t pool, int64_t elements, ScalarType type) {
  Tensor made;
  check(pools().allocate(pool, dtype_code(type), elements, handle(made), current_error));
  return made;
}

// Copies values between tensors of equal shapes in any pools, and converts the dtype.
inline void copy_values(const Tensor& to, const Tensor& from) {
  check(pools().copy(handle(to), handle(from), current_error));
}

// A transfer of this thread while it lives, WEFT_TRANSFER_*. See weft_pool_services.
class Transfer {
 public:
  explicit Transfer(uint32_t direction) { check(pools().begin_transfer(direction, current_error)); }
  Transfer(const Transfer&) = delete;
  ~Transfer() {
    if (!is_open_) return;
    weft_work* work = nullptr;
    pools().end_transfer(&work, current_error);
    host.comm->release(work);
  }
  // Ends it. The returned work is that of `collective`, which began in it, and of the transfer.
  Work end(Work collective = {}) {
    is_open_ = false;
    weft_work* work = collective.detach();
    const weft_status status = pools().end_transfer(&work, current_error);
    Work both(work);
    check(status);
    return both;
  }

 private:
  bool is_open_ = true;
};

// Runs `start` in a transfer to the accelerator. It copies values, and may start a collective that sends
// them. The returned work is that of both.
template <class Start>
Work transfer_to_accelerator(const Start& start) {
  Transfer transfer(WEFT_TRANSFER_TO_ACCELERATOR);
  return transfer.end(start());
}

// Starts to copy `from`, which is on the accelerator, to host memory. The memory of `from` may be used again
// after the returned work.
inline Work transfer_to_host(const Tensor& to, const Tensor& from) {
  Transfer transfer(WEFT_TRANSFER_TO_HOST);
  copy_values(to, from);
  return transfer.end();
}

#ifndef WEFT_TORCH_MIN
// Copies `arrived`, which is on the accelerator, to `kept` in the pool `home`, or `adds` it to what is there.
// Both have one dimension; `kept` is allocated with `dtype` if it is undefined, and is best kept: to lock
// pages takes long. `saving` is the work of the last call for `kept`, and becomes that of this one: the
// memory of `arrived` may be used again after it. Nothing waits for the host: a sum in host memory is
// brought, and its copy on the accelerator added to.
inline void keep_sum(at::Tensor& kept, Work& saving, const at::Tensor& arrived, uint32_t home,
                     at::ScalarType dtype, bool adds) {
  const at::NoGradGuard no_grad;
  saving.wait();
  if (!kept.defined()) kept = allocate(home, arrived.numel(), dtype);
  if (home == WEFT_POOL_ACCELERATOR) {
    if (adds)
      kept.add_(arrived);
    else
      copy_values(kept, arrived);
  } else if (!adds) {
    saving = transfer_to_host(kept, arrived);
  } else {
    const at::Tensor sum = allocate(WEFT_POOL_ACCELERATOR, kept.numel(), dtype);
    transfer_to_accelerator([&] {
      copy_values(sum, kept);
      return Work();
    }).wait();
    saving = transfer_to_host(kept, sum.add_(arrived));
  }
}
#endif

// Returns how much memory a pool has and how much of it is in use.
inline weft_pool_info pool_info(uint32_t pool) {
  weft_pool_info info{};
  info.struct_size = sizeof(info);
  check(pools().info(pool, &info, current_error));
  return info;
}

}  // namespace v0
}  // namespace weft::plugin

#include "memory/services.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error_sink.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "device/counting_allocator.hpp"
#include "device/device.hpp"
#include "memory/pools.hpp"
#include "memory/transfers.hpp"
#include "weft/torch/dtypes.hpp"
#include "work_handle.hpp"

namespace weft {

namespace {

using memory::Pool;

const at::Tensor& tensor_of(const weft_at_tensor* handle) {
  return *reinterpret_cast<const at::Tensor*>(handle);
}

Pool checked_pool(uint32_t pool) {
  if (pool == WEFT_POOL_OFFLOAD) return device::current().is_host() ? Pool::kHost : Pool::kPinned;
  if (pool > WEFT_POOL_PINNED)
    fail(WEFT_INVALID_ARGUMENT,
         "memory pool {} is none of {} (host), {} (accelerator), {} (pinned), {} (offload)", pool,
         WEFT_POOL_HOST, WEFT_POOL_ACCELERATOR, WEFT_POOL_PINNED, WEFT_POOL_OFFLOAD);
  return static_cast<Pool>(pool);
}

void check_elements(int64_t elements, size_t element_size) {
  if (elements < 0 || elements > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(element_size))
    fail(WEFT_INVALID_ARGUMENT, "a storage cannot have {} elements", elements);
}

// The bytes on the accelerator that are in no pool, now and at their peak. A device counts all of its memory
// together: its peak is less what the pool has now.
std::pair<int64_t, int64_t> computing(const memory::PoolUse& accelerator) {
  if (device::current().is_host()) return {unpooled_bytes(), peak_unpooled_bytes()};
  const device::MemoryUse all = device::memory_use();
  const auto rest = [&](int64_t bytes) { return std::max<int64_t>(0, bytes - accelerator.used); };
  return {rest(all.used), rest(all.peak)};
}

void reset_computing_peak() {
  device::current().is_host() ? reset_peak_unpooled_bytes() : device::reset_peak();
}

weft_status pool_info(uint32_t pool, weft_pool_info* out, weft_error* error) {
  return guarded(error, [&] {
    const memory::PoolUse use = memory::pool_use(checked_pool(pool));
    weft_pool_info info = {};
    info.capacity = use.capacity;
    info.used = use.used;
    info.peak = use.peak;
    info.received = use.received;
    std::tie(info.computing, info.computing_peak) =
        pool == WEFT_POOL_ACCELERATOR ? computing(use) : std::pair<int64_t, int64_t>();
    fill_out("weft_pool_info", info, out);
  });
}

weft_status allocate(uint32_t pool, uint32_t dtype, int64_t elements, weft_at_tensor* out,
                     weft_error* error) {
  return guarded(error, [&] {
    const at::ScalarType type = scalar_type(dtype);
    check_elements(elements, c10::elementSize(type));
    // Count memory from now on: a strategy that places memory also asks what computing takes.
    count_memory();
    *reinterpret_cast<at::Tensor*>(out) = memory::allocate(checked_pool(pool), elements, type);
  });
}

weft_status copy(const weft_at_tensor* to, const weft_at_tensor* from, weft_error* error) {
  return guarded(error, [&] {
    if (tensor_of(to).sizes() != tensor_of(from).sizes())
      fail(WEFT_INVALID_ARGUMENT, "copy of {} elements into {}: the shapes must be equal",
           tensor_of(from).numel(), tensor_of(to).numel());
    at::NoGradGuard no_grad;
    memory::copy(tensor_of(to), tensor_of(from));
  });
}

weft_status begin_transfer(uint32_t direction, weft_error* error) {
  return guarded(error, [&] {
    if (direction != WEFT_TRANSFER_TO_ACCELERATOR && direction != WEFT_TRANSFER_TO_HOST)
      fail(WEFT_INVALID_ARGUMENT, "transfer direction {} is none of 0 (to the accelerator), 1 (to the host)",
           direction);
    memory::begin_transfer(static_cast<memory::Direction>(direction));
  });
}

weft_status end_transfer(weft_work** inout, weft_error* error) {
  return guarded(error, [&] {
    memory::TransferEnd end = memory::end_transfer();
    if (end && *inout == nullptr) *inout = new weft_work;
    if (end) (*inout)->transfer = std::move(end);
  });
}

weft_status finish_transfers(weft_error* error) {
  return guarded(error, [] { memory::finish_transfers(); });
}

}  // namespace

const weft_pool_services* pool_services() {
  static const weft_pool_services table = {
      sizeof(table), &pool_info,      &reset_computing_peak, &allocate,
      &copy,         &begin_transfer, &end_transfer,         &finish_transfers};
  return &table;
}

}  // namespace weft

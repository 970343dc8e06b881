// Pools of memory in which strategies place tensors: host, pinned host (locked pages) and accelerator, the
// memory of the device. On the CPU that is host memory with a limit of its own, so that placement, eviction
// and running out of memory run the same code everywhere: moving a tensor allocates, copies and frees.
// WEFT_ACCELERATOR_MEMORY sets the limit ("512MiB"); without it there is no limit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "weft/pools.h"

namespace weft::memory {

enum class Pool : uint32_t {
  kHost = WEFT_POOL_HOST,
  kAccelerator = WEFT_POOL_ACCELERATOR,
  kPinned = WEFT_POOL_PINNED
};

struct PoolUse {
  int64_t capacity;  // bytes; INT64_MAX: no limit
  int64_t used;      // bytes in use now
  int64_t peak;      // the most bytes in use since reset_peak
  int64_t received;  // bytes copied into this pool, from host to accelerator or back
};
PoolUse pool_use(Pool pool);
void reset_peak(Pool pool);

// Sets the limit of the accelerator; 0 removes it. Throws RESOURCE_EXHAUSTED if more is in use.
void limit_accelerator(int64_t bytes);

// Returns a flat uninitialised tensor. Its storage may be resized and stays in the pool. Throws
// RESOURCE_EXHAUSTED naming the bytes wanted, used and allowed if this would exceed the accelerator's limit,
// and for pinned memory if the system does not lock so many pages.
at::Tensor allocate(Pool pool, int64_t elements, at::ScalarType dtype);

// Returns the pool of the tensor's storage; kHost if it is in no pool.
Pool pool_of(const at::Tensor& tensor);

// Returns an uninitialised tensor with the shape of `like` in the pool of `like`, or in kHost for kPinned.
at::Tensor empty_like(const at::Tensor& like, at::ScalarType dtype);

// Copies values, converts the dtype, and counts the bytes that go between host and accelerator. In a transfer
// (memory/transfers.hpp) it only starts to copy, if one of the tensors is in kPinned.
void copy(const at::Tensor& to, const at::Tensor& from);

}  // namespace weft::memory

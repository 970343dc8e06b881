// Pools of memory for what strategies place: the host's, the host's in locked pages, and the accelerator's.
// Where there is no GPU the accelerator is host memory with a limit of its own, so that placement, eviction
// and running out of memory are the same code everywhere: moving allocates, copies and frees.
// WEFT_ACCELERATOR_MEMORY sets the limit ("512MiB"); without it there is none.
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
  int64_t used;
  int64_t peak;      // the most since reset_peak
  int64_t received;  // copied into this pool from the other side: accelerator or host
};
PoolUse pool_use(Pool pool);
void reset_peak(Pool pool);

// In place of the environment's; 0 takes the limit away. Throws RESOURCE_EXHAUSTED if more is in use.
void limit_accelerator(int64_t bytes);

// A flat tensor without values. Its storage may be resized, and stays in the pool. Throws RESOURCE_EXHAUSTED
// where the accelerator's limit would be exceeded, naming what is wanted, used and there; for pinned memory
// where the system does not lock so many pages.
at::Tensor allocate(Pool pool, int64_t elements, at::ScalarType dtype);

// The pool that the tensor's storage is from; kHost for tensors of no pool.
Pool pool_of(const at::Tensor& tensor);

// A tensor without values of the shape of `like`, in the pool of `like`.
at::Tensor empty_like(const at::Tensor& like, at::ScalarType dtype);

// Copies values, converting the dtype, and counts what crosses between host and accelerator.
void copy(const at::Tensor& to, const at::Tensor& from);

}  // namespace weft::memory

/* Memory pools, for strategies that choose where tensors are stored. Extension "weft.pools/1", tier torch.
 *
 * Without a GPU the accelerator pool is host memory with a limit of its own (WEFT_ACCELERATOR_MEMORY), so
 * that offloading runs the same code and running out of memory is the same error. resize_storage of
 * "weft.memory/1" resizes the storage of a tensor within its pool. */
#ifndef WEFT_POOLS_H
#define WEFT_POOLS_H

#include "comm.h"
#include "types.h"

WEFT_BEGIN_C

/* The id of the extension. */
#define WEFT_POOL_SERVICES "weft.pools/1"

/* The pools. */
#define WEFT_POOL_HOST 0
#define WEFT_POOL_ACCELERATOR 1
#define WEFT_POOL_PINNED 2 /* page-locked host memory */
#define WEFT_POOLS 3

/* How much memory a pool has and how much of it is in use, in bytes. */
typedef struct weft_pool_info {
  uint64_t struct_size;
  int64_t capacity;       /* INT64_MAX: no limit */
  int64_t used;           /* by tensors from `allocate` */
  int64_t peak;           /* the largest `used` so far */
  int64_t received;       /* total that `copy` moved into it between host and accelerator */
  int64_t computing;      /* accelerator: used by anything else, such as activations; other pools: 0 */
  int64_t computing_peak; /* the largest `computing` since reset_computing_peak */
} weft_pool_info;

/* The functions of the extension. [any thread] [no collective] since 0.1 */
typedef struct weft_pool_services {
  uint64_t struct_size;
  weft_status (*info)(uint32_t pool, weft_pool_info* out, weft_error* error);
  void (*reset_computing_peak)(void);
  /* Allocates an uninitialised tensor with one dimension of `elements` in the pool and stores it in `out`, an
   * undefined tensor of the caller. Errors: WEFT_RESOURCE_EXHAUSTED, with the sizes, if the limit of the
   * accelerator would be exceeded or pages cannot be locked. */
  weft_status (*allocate)(uint32_t pool, uint32_t dtype, int64_t elements, weft_at_tensor* out,
                          weft_error* error);
  /* Copies values between tensors of equal shapes, in any pools, and converts the dtype. */
  weft_status (*copy)(const weft_at_tensor* to, const weft_at_tensor* from, weft_error* error);
} weft_pool_services;

WEFT_END_C

#endif

/* Pools of memory, for strategies that decide where they hold things. Extension "weft.pools/1", tier torch.
 *
 * Without a GPU the accelerator is host memory with a limit of its own (WEFT_ACCELERATOR_MEMORY), so that
 * moving takes the same code path and running out of memory is the same error. Storage of a pool is resized
 * with resize_storage of "weft.memory/1" and stays in its pool. */
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
#define WEFT_POOL_PINNED 2 /* the host's, in locked pages */
#define WEFT_POOLS 3

/* How much memory a pool has and how much is in use, in bytes. */
typedef struct weft_pool_info {
  uint64_t struct_size;
  int64_t capacity;       /* bytes; INT64_MAX: no limit */
  int64_t used;           /* by storage from `allocate` */
  int64_t peak;           /* the most so far */
  int64_t received;       /* copied into it by `copy` from the other side, host or accelerator, so far */
  int64_t computing;      /* accelerator: in use by anything else, such as activations; 0 in other pools */
  int64_t computing_peak; /* the most since reset_computing_peak */
} weft_pool_info;

/* The functions of the extension. [any thread] [no collective] since 0.1 */
typedef struct weft_pool_services {
  uint64_t struct_size;
  weft_status (*info)(uint32_t pool, weft_pool_info* out, weft_error* error);
  void (*reset_computing_peak)(void);
  /* Makes `out`, an undefined tensor of the caller, a flat tensor without values. Fails with
   * WEFT_RESOURCE_EXHAUSTED, naming the sizes, if the accelerator's limit would be exceeded or pages cannot
   * be locked. */
  weft_status (*allocate)(uint32_t pool, uint32_t dtype, int64_t elements, weft_at_tensor* out,
                          weft_error* error);
  /* Copies values between tensors of equal shapes in any pools, and converts the dtype. */
  weft_status (*copy)(const weft_at_tensor* to, const weft_at_tensor* from, weft_error* error);
} weft_pool_services;

WEFT_END_C

#endif

/* Memory pools, for strategies that choose where tensors are stored. Extension "weft.pools/1", tiers stable
 * and torch.
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
/* A name for the one of them that suits values which are copied to the accelerator and back: pinned memory,
 * or host memory where the accelerator is the CPU. */
#define WEFT_POOL_OFFLOAD 256

/* The directions of transfers. */
#define WEFT_TRANSFER_TO_ACCELERATOR 0
#define WEFT_TRANSFER_TO_HOST 1

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

/* The functions of the extension. [any thread] [no collective] since 0.2, where no other tag stands */
typedef struct weft_pool_services {
  uint64_t struct_size;
  weft_status (*info)(uint32_t pool, weft_pool_info* out, weft_error* error);
  void (*reset_computing_peak)(void);
  /* Allocates an uninitialised tensor with one dimension of `elements` in the pool and stores it in `out`, an
   * undefined tensor of the caller. Errors: WEFT_RESOURCE_EXHAUSTED, with the sizes, if the limit of the
   * accelerator would be exceeded or pages cannot be locked. */
  weft_status (*allocate)(uint32_t pool, uint32_t dtype, int64_t elements, weft_at_tensor* out,
                          weft_error* error);
  /* Copies values between tensors of equal shapes, in any pools, and converts the dtype. In a transfer it
   * only starts to copy, if one of the tensors is in pinned memory. */
  weft_status (*copy)(const weft_at_tensor* to, const weft_at_tensor* from, weft_error* error);

  /* A transfer is what a thread launches between begin_transfer and end_transfer: asynchronous copies, and
   * collectives that send what was copied. It runs on a side stream, one for each direction, after the work
   * that the current stream has so far, and overlaps with later work. end_transfer adds its end to the work
   * in `inout`, a collective that began in it; if that is NULL, it stores a new work there, or NULL where
   * nothing is left to do. `direction` is WEFT_TRANSFER_*.
   *
   * What `copy` reads on the accelerator lives until its transfer is done. Memory that a transfer uses may be
   * overwritten, resized or used again after `wait` of its work. Pinned memory that it fills must not be read
   * by the host, nor what it reads be written, before finish_transfers, which blocks until the transfers of
   * this process are done; the host calls it after each `publish`. [step] [no collective] since 0.2, all
   * three */
  weft_status (*begin_transfer)(uint32_t direction, weft_error* error);
  weft_status (*end_transfer)(weft_work** inout, weft_error* error);
  weft_status (*finish_transfers)(weft_error* error);
} weft_pool_services;

WEFT_END_C

#endif

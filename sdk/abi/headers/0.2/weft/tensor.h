/* Tensors of the C API for applications. Exported by libweft.so, which loads the engine for them. since 0.2
 */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include "types.h"

WEFT_BEGIN_C

/* A tensor that Weft owns. */
typedef struct weft_tensor weft_tensor;

/* The dtype, shape and data of a tensor. */
typedef struct weft_tensor_info {
  uint64_t struct_size;
  uint32_t dtype; /* WEFT_F32, ... */
  uint32_t ndim;
  int64_t shape[WEFT_MAX_DIMS];
  uint64_t size_bytes;
  const void* data; /* contiguous, row-major, on the CPU; valid as long as the tensor */
} weft_tensor_info;

/* Creates a tensor with a copy of `info->data`. `size_bytes` must match dtype and shape. [any thread] */
WEFT_EXPORT weft_status weft_tensor_create(const weft_tensor_info* info, weft_tensor** own,
                                           weft_error* error);
/* Fills `out` with the dtype, shape and data of a tensor. [any thread] */
WEFT_EXPORT weft_status weft_tensor_describe(const weft_tensor* tensor, weft_tensor_info* out,
                                             weft_error* error);
/* Destroys a tensor. NULL is accepted. [any thread] */
WEFT_EXPORT void weft_tensor_destroy(weft_tensor* tensor);

WEFT_END_C

#endif

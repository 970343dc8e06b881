/* Communicators: groups of ranks along axes of the mesh. Extension "weft.comm/1", tiers stable and
 * torch.
 *
 * Collectives are asynchronous: each call returns a work that the caller owns, and does not wait. Every
 * member of a group must issue the same sequence of collectives. Tensors must be contiguous, on the
 * training's device, and must not require grad. A work keeps its tensors alive until it is both done and
 * released. */
#ifndef WEFT_COMM_H
#define WEFT_COMM_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the extension. */
#define WEFT_COMM_SERVICES "weft.comm/1"

/* A training, a group of ranks, and a collective that is in progress. */
typedef struct weft_training weft_training;
typedef struct weft_comm weft_comm; /* owned by the host, valid until the training is destroyed */
typedef struct weft_work weft_work;

/* The address of an at::Tensor, borrowed for the call: what libtorch's C shim calls an AtenTensorHandle. In
 * tier torch, host and plugin are built against the same libtorch, and it is an at::Tensor; in tier stable, a
 * plugin passes it to functions of the C shim alone. */
typedef struct weft_at_tensor weft_at_tensor;

/* How a reduction combines elements. */
#define WEFT_REDUCE_SUM 0
#define WEFT_REDUCE_MAX 1
#define WEFT_REDUCE_MIN 2
#define WEFT_REDUCE_CONTROL \
  256 /* or it to the op of an all_reduce for bookkeeping: its bytes are counted separately */

/* The functions of the extension. */
typedef struct weft_comm_services {
  uint64_t struct_size;

  /* Looks up a set of axes by its name: that of an axis (weft/mesh.h), "samples" (the ranks whose gradients
   * are summed) or "everyone". Errors: WEFT_NOT_FOUND for any other name. [step] [no collective] since 0.2 */
  weft_status (*axes)(weft_training* training, weft_str name, uint32_t* out, weft_error* error);
  /* Returns the group of the ranks whose mesh coordinates differ from this rank's only on `axes`, a set of
   * axes, and this rank's place and the number of ranks in a group. The host has made all groups before
   * configure. [step] [no collective] since 0.2, all three */
  weft_comm* (*comm)(weft_training* training, uint32_t axes);
  uint32_t (*rank)(weft_comm* comm);
  uint32_t (*size)(weft_comm* comm);

  /* Creates a group of some members of `comm`, given by their ranks in `comm`. All ranks of `comm` must call
   * it with the same members in the same order. `*out` is NULL on ranks that are not members. [control]
   * [blocks] since 0.2 */
  weft_status (*subset)(weft_comm* comm, const uint32_t* members, uint32_t num_members, weft_comm** out,
                        weft_error* error);

  /* Reduces `inout` over the group in place; `op` is WEFT_REDUCE_*. This function and those that follow,
   * until barrier: [step] [starts a collective, does not wait] since 0.2 */
  weft_status (*all_reduce)(weft_comm* comm, const weft_at_tensor* inout, uint32_t op, weft_work** own,
                            weft_error* error);
  /* Gathers the inputs of all ranks in the order of their ranks. `output` has size() times as many elements
   * as `input`. */
  weft_status (*all_gather)(weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input,
                            weft_work** own, weft_error* error);
  /* Reduces `input`, which has size() times as many elements as `output`; rank r receives the r-th part. */
  weft_status (*reduce_scatter)(weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input,
                                uint32_t op, weft_work** own, weft_error* error);
  weft_status (*broadcast)(weft_comm* comm, const weft_at_tensor* inout, uint32_t root, weft_work** own,
                           weft_error* error);
  /* Sends one part of `input` to each rank. The splits say how many elements of the first dimension each rank
   * gets; NULL means equal parts. */
  weft_status (*all_to_all)(weft_comm* comm, const weft_at_tensor* output, const weft_at_tensor* input,
                            const int64_t* output_splits, const int64_t* input_splits, weft_work** own,
                            weft_error* error);
  weft_status (*send)(weft_comm* comm, const weft_at_tensor* tensor, uint32_t to, uint32_t tag,
                      weft_work** own, weft_error* error);
  weft_status (*recv)(weft_comm* comm, const weft_at_tensor* tensor, uint32_t from, uint32_t tag,
                      weft_work** own, weft_error* error);
  /* Returns when every member has called it. [step] [blocks] since 0.2 */
  weft_status (*barrier)(weft_comm* comm, weft_error* error);

  /* Waits for a work as weft/types.h says: what is enqueued on this thread afterwards sees the result in the
   * tensors. [any thread] [blocks] since 0.2 */
  weft_status (*wait)(weft_work* work, weft_error* error);
  /* Releases a work without waiting for it or cancelling it. NULL is accepted. [any thread] [no collective]
   * since 0.2 */
  void (*release)(weft_work* work);
} weft_comm_services;

WEFT_END_C

#endif

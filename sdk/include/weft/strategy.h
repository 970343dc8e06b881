/* A training strategy: when storage is bound, gathered, reduced and released. Factory
 * "weft.factory.strategy/1", tier torch. C++ authors write a class over this table with
 * weft/torch/strategy.hpp.
 *
 * Threads: "control" is the thread that runs the step; "engine" is the thread of the autograd engine, which
 * is the same on CPU and the device's own on CUDA: a strategy relies neither on thread_local state nor on the
 * current device. A slot that is NULL is not subscribed and costs nothing. After a failed step `destroy` is
 * the only call. */
#ifndef WEFT_STRATEGY_H
#define WEFT_STRATEGY_H

#include "training.h"
#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_STRATEGY "weft.factory.strategy/1"

/* A strategy, and what takes the shards that it publishes. */
typedef struct weft_strategy weft_strategy;
typedef struct weft_shard_sink weft_shard_sink;

/* Sizes of the axes; their product, without the sub-axes of the tensor axis, is the number of ranks. Before
 * describe_mesh the host fills ones, and the size of the tensor axis. */
typedef struct weft_mesh {
  uint64_t struct_size;
  uint32_t size[WEFT_AXES];
} weft_mesh;

/* What a strategy is made with. Options are complete: the host has checked names, types and values against
 * plugin.json, has filled in the defaults, and has refused options that have no effect together with the
 * others
 * ("needs"). Borrowed for the call.
 *
 * The host performs the options of sdk/options/groups.json for every strategy whose plugin.json names their
 * group: precision, loss scaling, clipping, and the tensor and sequence axes, which it opens before
 * describe_mesh. The strategy receives them too. */
typedef struct weft_strategy_arguments {
  uint64_t struct_size;
  const weft_kv* options;
  uint64_t num_options;
  uint32_t world_size;
  uint32_t rank;
  weft_str precision; /* "fp32", "fp64", "bf16", "fp16" */
} weft_strategy_arguments;

/* One backward. */
typedef struct weft_backward_info {
  uint64_t struct_size;
  uint32_t index;       /* of the micro-batch within the accumulation */
  uint32_t count;       /* how many there are; 0: unknown, the caller's own loop */
  uint32_t synchronise; /* 0 under no_sync, and before the last backward of a step: gradients stay local */
  uint32_t reserved;
} weft_backward_info;

/* One record of publish: elements [begin, begin + count) of this rank's part of one parameter, flattened. */
#define WEFT_SHARD_COPY 1 /* a duplicate of a tied parameter that is counted elsewhere */
typedef struct weft_shard {
  uint64_t struct_size;
  weft_param* param;
  int64_t begin;
  int64_t count;
  const weft_at_tensor* value;    /* master values: `count` elements, contiguous; frozen: of either dtype */
  const weft_at_tensor* gradient; /* NULL: there is none (frozen, or before the first backward) */
  uint32_t partition_axes;        /* over which the strategy split the part; the host adds the plan's */
  uint32_t flags;
} weft_shard;

/* Takes one record; the tensors are kept until the strategy publishes again.  Extension "weft.publish/1". */
#define WEFT_PUBLISH_SERVICES "weft.publish/1"
typedef struct weft_publish_services {
  uint64_t struct_size;
  weft_status (*shard)(weft_shard_sink* sink, const weft_shard* shard, weft_error* error);
} weft_publish_services;

/* A parameter of a model that has no memory, in the order of the model. */
typedef struct weft_param_shape {
  int64_t elements;
  uint32_t first_unit; /* of the units that use it */
  uint32_t last_unit;
  uint32_t frozen; /* 1: never gets a gradient */
  uint32_t reserved;
} weft_param_shape;

/* What is to be trained, for an estimate. Borrowed for the call. */
typedef struct weft_job_shape {
  uint64_t struct_size;
  const weft_param_shape* params;
  uint64_t num_params;
  uint32_t num_units;
  uint32_t working_size; /* bytes of an element that the layers compute with */
  uint32_t master_size;  /* of one that the optimizer updates; equal to working_size: there are no masters */
  uint32_t num_states;   /* elementwise states of the optimizer: 2 for Adam */
  uint32_t state_size;   /* bytes of an element of one */
  uint32_t reserved;
} weft_job_shape;

/* Bytes of one rank, the one with most. What is held when the optimizer steps, without activations; what
 * forward and backward need beyond; what one step with one micro-batch sends, as c10d's algorithms move it:
 * an all-reduce of n bytes sends 2 n (P-1)/P. */
typedef struct weft_job_estimate {
  uint64_t struct_size;
  int64_t parameters; /* working copies */
  int64_t gradients;
  int64_t masters; /* where they are no working copies */
  int64_t states;
  int64_t transient;
  int64_t sent_all_reduce;
  int64_t sent_reduce_scatter;
  int64_t sent_all_gather;
  int64_t sent_broadcast;
  int64_t host; /* of what is held: in the host's memory, where the rest is on an accelerator */
} weft_job_estimate;

/* The functions of a strategy. */
typedef struct weft_strategy_api {
  uint64_t struct_size;

  /* [control] [no collective] */
  weft_status (*create)(const weft_strategy_arguments* arguments, weft_strategy** own, weft_error* error);
  void (*destroy)(weft_strategy* strategy);

  /* Opens axes. The host then checks the product, makes the communicators and applies the plan. NULL: those
   * that the tensor axis leaves on the data axis. [control] [no collective] */
  weft_status (*describe_mesh)(weft_strategy* strategy, weft_mesh* inout, weft_error* error);

  /* Parameters are without memory and already cut by the plan; the strategy binds them. [control] [may block]
   */
  weft_status (*configure)(weft_strategy* strategy, weft_training* training, weft_error* error);

  /* Once per unit and micro-batch, never during recomputation. [control] [may block] */
  weft_status (*before_forward)(weft_strategy* strategy, weft_unit* unit, weft_error* error);
  weft_status (*after_forward)(weft_strategy* strategy, weft_unit* unit, weft_error* error);

  /* Around one backward. At end_backward every hook of this backward has fired. [control] [may block]
   *
   * In a caller's own loop several synchronised backwards may come before one step, and backwards under
   * no_sync between them. What is published after a synchronised one is the sum over all backwards since
   * zero_gradients and over the ranks. Autograd adds to the gradients that are there, so a strategy that sums
   * them in place must count what is summed already once: begin_backward resets it on all ranks of the sum
   * but one. */
  weft_status (*begin_backward)(weft_strategy* strategy, const weft_backward_info* info, weft_error* error);
  weft_status (*end_backward)(weft_strategy* strategy, const weft_backward_info* info, weft_error* error);

  /* Before any work of the unit's backward, its recomputation included. Every unit that went forward gets
   * exactly one pair of these per micro-batch, in strict reverse order, on every rank alike. [engine or
   * control] [may block] */
  weft_status (*before_backward)(weft_strategy* strategy, weft_unit* unit, weft_error* error);

  /* The gradient has been accumulated into the tensor's .grad, which may be taken or reset here. Once per
   * parameter and backward; not at all if it was not used; the order may differ between ranks. [engine] [only
   * on earlier reductions of its own] */
  weft_status (*gradient_ready)(weft_strategy* strategy, weft_param* param, weft_error* error);

  /* The gradients of all parameters that the unit owns are complete. Where a caller's loop runs one backward
   * through several forwards, the hooks of the later ones come first, and gradients are complete at the last
   * pair. [engine or control] [may block] */
  weft_status (*after_backward)(weft_strategy* strategy, weft_unit* unit, weft_error* error);

  /* The order of units and micro-batches, training and evaluation. NULL: micro-batches in turn, all units,
   * finish, backward. [control] [may block] */
  weft_status (*run_step)(weft_strategy* strategy, weft_step* step, weft_error* error);

  /* One record for each range of each parameter that this rank holds. Ranges are the same from configure on.
   * [control] [no collective] */
  weft_status (*publish)(weft_strategy* strategy, weft_shard_sink* sink, weft_error* error);

  /* The host wrote the published values: refresh what is derived from them. NULL: nothing is. [control] [may
   * block] */
  weft_status (*values_changed)(weft_strategy* strategy, weft_error* error);

  /* Forget all gradients. [control] [no collective] */
  weft_status (*zero_gradients)(weft_strategy* strategy, weft_error* error);

  /* What a job would hold and send, from shapes alone, which a tensor axis has cut already;
   * arguments->world_size is that of the ranks that it leaves. `out` begins as zeros. NULL: unknown. [any
   * thread] [no collective] */
  weft_status (*estimate)(const weft_strategy_arguments* arguments, const weft_job_shape* job,
                          weft_job_estimate* out, weft_error* error);
} weft_strategy_api;

/* What get_factory(WEFT_FACTORY_STRATEGY) returns: the strategies of the library by name. */
typedef struct weft_strategy_factory {
  uint64_t struct_size;
  const weft_strategy_api* (*find)(weft_str name);
} weft_strategy_factory;

WEFT_END_C

#endif

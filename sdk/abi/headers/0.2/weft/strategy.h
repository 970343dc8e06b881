/* A training strategy decides where parameters and gradients are stored and when they are gathered, reduced
 * and released. Factory "weft.factory.strategy/1", tier stable or torch. C++ authors derive a class with
 * weft/torch/strategy.hpp.
 *
 * Threads: "control" is the thread that runs the step. "engine" is the thread of the autograd engine: on CPU
 * it is the same thread, on CUDA one of the device. So a strategy must not rely on thread_local state or on
 * the current device. A hook that is NULL is not called and costs nothing. After a failed step the host calls
 * `destroy` and nothing else. */
#ifndef WEFT_STRATEGY_H
#define WEFT_STRATEGY_H

#include "mesh.h"
#include "training.h"
#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_STRATEGY "weft.factory.strategy/1"

/* A strategy, and the receiver of the shards that it publishes. */
typedef struct weft_strategy weft_strategy;
typedef struct weft_shard_sink weft_shard_sink;

/* The arguments of create. Options are complete: the host has checked names, types and values against
 * plugin.json, has filled in the defaults, and has refused options that have no effect together with the
 * others ("needs"). Borrowed for the call.
 *
 * If plugin.json names a group of sdk/options/groups.json, the host implements the options of that group:
 * precision, loss scaling, clipping, and the tensor, sequence and pipeline axes, which it sets before
 * describe_mesh. The strategy receives these options too.
 *
 * A strategy that names the group "pipeline_axis" works with pipeline stages of the host. Then the host
 * divides the units among the ranks along the pipeline axis, and each rank sees its own only
 * (weft_param_info). The host runs the micro-batches by a schedule: a micro-batch goes forward while the
 * backward of an earlier one is to come, and the units of a rank may run forward and backward in several
 * pieces, each with begin_backward and end_backward of its own. The hooks of one piece come in the order that
 * they have without stages, and in the same order on all ranks of a stage.
 *
 * A schedule may split a backward in two (pp_style zbh1, zbv). The strategy gets two backwards then, each
 * with the hooks of all units of the piece, and others may come between them. In the first, the host computes
 * the gradients that another stage waits for, and with them those of norms, embeddings and layers of the
 * model's own; in the second, those of linear layers. gradient_ready is called in the one that has the
 * gradient of the parameter, or in both. No unit is recomputed in the second.
 *
 * `synchronise` is set in the last backward of the step on this rank: with split backwards, in the second
 * half of one. It may go through some of the units only. The gradients of the others are complete since an
 * earlier backward, and no gradient_ready comes for them: a strategy reduces these in end_backward. A
 * strategy that cannot must not name the group. */
typedef struct weft_strategy_arguments {
  uint64_t struct_size;
  weft_str name; /* under which the strategy was found */
  const weft_kv* options;
  uint64_t num_options;
  uint32_t world_size;
  uint32_t rank;
  weft_str precision; /* "fp32", "fp64", "bf16", "fp16" */
} weft_strategy_arguments;

/* What a pass through units is for. */
#define WEFT_PASS_TRAINING 0
#define WEFT_PASS_EVALUATION 1 /* forward alone, without gradients */
#define WEFT_PASS_GENERATION 2 /* the same, token by token */

/* Describes the forward or backward that a hook belongs to; with split backwards, one half. */
typedef struct weft_pass {
  uint64_t struct_size;
  int64_t step;         /* how many updates the training has made so far */
  uint32_t purpose;     /* WEFT_PASS_* */
  uint32_t micro;       /* of the micro-batch within the gradient accumulation, from 0 */
  uint32_t num_micros;  /* the number of micro-batches; 0 if unknown, in a loop of the caller's own */
  uint32_t synchronise; /* backward: 0 under no_sync and before the last of a step: do not reduce gradients */
  uint32_t recomputes;  /* before_backward: 1 if the unit's forward runs again after it */
  uint32_t reserved;
} weft_pass;

/* Why the host asks for the shards, or has written them. */
#define WEFT_REASON_START 0     /* after configure */
#define WEFT_REASON_UPDATE 1    /* an update of the optimizer */
#define WEFT_REASON_LOAD 2      /* values come from a checkpoint */
#define WEFT_REASON_SAVE 3      /* values go to a checkpoint or to the caller */
#define WEFT_REASON_TAKE_OVER 4 /* values pass between two strategies of one job */
#define WEFT_REASON_CHECK 5     /* the host compares */
#define WEFT_REASON_MERGE 6     /* merge_replicas */

/* One record of publish: elements [begin, begin + count) of this rank's flattened part of one parameter. */
#define WEFT_SHARD_COPY 1 /* flag: a duplicate of a tied parameter, which another shard has already */
typedef struct weft_shard {
  uint64_t struct_size;
  weft_param* param;
  int64_t begin;
  int64_t count;
  /* Master values, contiguous, of `count` elements; of frozen parameters in any dtype. The memory itself: the
   * host reads and writes it, and what it has written there trains on. A copy that is made for each call
   * would lose every update; the host looks for it in the first steps. */
  const weft_at_tensor* value;
  const weft_at_tensor* gradient; /* NULL if there is none: frozen, or before the first backward */
  uint32_t partition_axes;        /* over which the strategy shards the part; the host adds the plan's axes */
  uint32_t flags;
  /* The same elements in the dtype of the layers, contiguous, where the values are: the host rounds `value`
   * to it whenever it has written that, an update in the same pass, and then calls values_changed. NULL if
   * the strategy makes them in values_changed, or if layers use `value` itself. */
  const weft_at_tensor* working;
} weft_shard;

/* Extension "weft.publish/1". */
#define WEFT_PUBLISH_SERVICES "weft.publish/1"
typedef struct weft_publish_services {
  uint64_t struct_size;
  /* Takes one record, inside publish. The host keeps the tensors until the strategy publishes again. [step]
   * [no collective] since 0.2 */
  weft_status (*shard)(weft_shard_sink* sink, const weft_shard* shard, weft_error* error);
  /* Takes a tensor of the strategy's own, inside publish: `shard->value` has one number for each element of
   * the range, such as an average of the values or what a compressed gradient has left. `gradient` and
   * `working` are NULL. A training state keeps it beside the optimizer's states, and a job that resumes under
   * a strategy of this name reads it into the same memory before values_changed(LOAD), on any number of
   * ranks and in any ranges. `name` is of letters, digits and _. Over all ranks, the ranges under one name
   * must hold each element of a parameter once, or none of it; they need not be those of `shard`, but are the
   * same in every call. What a training state lacks stays as it is. [step] [no collective] since 0.2 */
  weft_status (*kept)(weft_shard_sink* sink, weft_str name, const weft_shard* shard, weft_error* error);
} weft_publish_services;

/* A parameter of a model that is not in memory. */
typedef struct weft_param_shape {
  uint64_t struct_size;
  int64_t elements;
  uint32_t first_unit; /* the first unit that uses it */
  uint32_t last_unit;  /* the last one */
  uint32_t frozen;     /* 1: it never gets a gradient */
  uint32_t reserved;
} weft_param_shape;

/* The job to estimate. Parameters are in the order of the model. Borrowed for the call. */
typedef struct weft_job_shape {
  uint64_t struct_size;
  const weft_param_shape* const* params; /* a pointer to each */
  uint64_t num_params;
  uint32_t num_units;
  uint32_t working_size; /* bytes of an element of the working dtype */
  uint32_t master_size;  /* and of the master dtype; equal to working_size if there are no master weights */
  uint32_t num_states;   /* elementwise optimizer states per parameter: 2 for Adam */
  uint32_t state_size;   /* bytes of an element of an optimizer state */
  uint32_t reserved;
} weft_job_shape;

/* The estimate, in bytes, of the rank that needs most: what it holds when the optimizer steps, without
 * activations; what forward and backward need in addition; and what it sends in one step with one
 * micro-batch, by the algorithms of c10d: an all-reduce of n bytes over P ranks sends 2 n (P-1)/P. */
typedef struct weft_job_estimate {
  uint64_t struct_size;
  int64_t parameters; /* in the working dtype */
  int64_t gradients;
  int64_t masters;   /* master weights that are stored separately */
  int64_t states;    /* optimizer states */
  int64_t transient; /* what forward and backward need in addition */
  int64_t sent_all_reduce;
  int64_t sent_reduce_scatter;
  int64_t sent_all_gather;
  int64_t sent_broadcast;
  int64_t host; /* how much of what is held is offloaded to host memory */
} weft_job_estimate;

/* Properties of a strategy, as bits.
 *
 * KEEPS_STORAGE: from configure on, every parameter is a whole tensor whose storage stays at one address. The
 * host may then replay forward and backward of a micro-batch as a CUDA graph: it calls before_forward and
 * after_forward of all units and begin_backward before the replay, and the other hooks after it. None of them
 * may rely on running between the units. */
#define WEFT_STRATEGY_KEEPS_STORAGE 1

/* The functions of a strategy. */
typedef struct weft_strategy_api weft_strategy_api;
struct weft_strategy_api {
  uint64_t struct_size;
  void* context;  /* of the library's own */
  uint64_t flags; /* of WEFT_STRATEGY_* */

  /* Creates a strategy, or destroys one. [control] [no collective] since 0.2 */
  weft_status (*create)(const weft_strategy_api* api, const weft_strategy_arguments* arguments,
                        weft_strategy** own, weft_error* error);
  void (*destroy)(weft_strategy* strategy);

  /* Sets the sizes of the axes, all of which are 1 but those that the host has set, tensor and pipeline
   * stages: a strategy leaves these as they are. The host then checks their product, creates the
   * communicators and applies the plan. If NULL, all ranks that are left are on the axis "data". [control]
   * [no collective] since 0.2 */
  weft_status (*describe_mesh)(weft_strategy* strategy, weft_mesh* mesh, weft_error* error);

  /* Binds storage to all parameters. They have no memory yet, and the plan has already sharded them.
   * [control] [may block] since 0.2 */
  weft_status (*configure)(weft_strategy* strategy, weft_training* training, weft_error* error);

  /* Called around the forward of each unit, once per micro-batch and never during recomputation. [control]
   * [may block on ranks of the same stage only] since 0.2 */
  weft_status (*before_forward)(weft_strategy* strategy, weft_unit* unit, const weft_pass* pass,
                                weft_error* error);
  weft_status (*after_forward)(weft_strategy* strategy, weft_unit* unit, const weft_pass* pass,
                               weft_error* error);

  /* Called around each backward. At end_backward all other hooks of this backward have been called.
   *
   * If the caller writes the training loop, several backwards may come before one step, with or without
   * no_sync. After one with `synchronise` set, the strategy publishes the sum over all backwards since
   * zero_gradients and over the ranks. Because autograd accumulates into .grad, a strategy that reduces
   * gradients in place must count earlier sums once: in begin_backward, all ranks but one reset them.
   * [control] [may block] since 0.2 */
  weft_status (*begin_backward)(weft_strategy* strategy, const weft_pass* pass, weft_error* error);
  weft_status (*end_backward)(weft_strategy* strategy, const weft_pass* pass, weft_error* error);

  /* Called before the backward of a unit and before its recomputation. Every unit that ran forward gets
   * exactly one before_backward and one after_backward per micro-batch (two with split backwards), in strict
   * reverse order (within a piece, if the host runs stages) and in the same order on every rank of the stage.
   * [engine or control] [may block on ranks of the same stage only] since 0.2 */
  weft_status (*before_backward)(weft_strategy* strategy, weft_unit* unit, const weft_pass* pass,
                                 weft_error* error);

  /* Called when the gradient has been accumulated into the tensor's .grad, which the strategy may take or
   * reset here. Called once per parameter and backward, or not at all if the parameter was not used. The
   * order may differ between ranks. A parameter with across_stages has no gradient before the backward with
   * `synchronise`; there this is called after after_backward of all units, with the sum over all backwards
   * since the last such one and over the stages that use it. [engine or control] [may block on earlier
   * reductions of its own only] since 0.2 */
  weft_status (*gradient_ready)(weft_strategy* strategy, weft_param* param, const weft_pass* pass,
                                weft_error* error);

  /* Called when the gradients of all parameters that the unit owns are complete, except those with
   * across_stages and, in the first half of a split backward, those that the second computes. If the caller
   * runs one backward through several forwards, the hooks of the last forward come first, and gradients are
   * complete at the last call for a unit. [engine or control] [may block] since 0.2 */
  weft_status (*after_backward)(weft_strategy* strategy, weft_unit* unit, const weft_pass* pass,
                                weft_error* error);

  /* Runs units and micro-batches in an order of the strategy's own, in training and evaluation; then the host
   * has no pipeline stages. If NULL, the host runs for each micro-batch all units, then finish, then
   * backward, or with pipeline stages the operations of a schedule. [control] [may block] since 0.2 */
  weft_status (*run_step)(weft_strategy* strategy, weft_step* step, weft_error* error);

  /* Passes one record to `sink` for each range of each parameter that this rank holds. The host asks after
   * configure, and whenever it reads or writes values or gradients: before each update, in checks of a step,
   * to save, to load and to take over. `reason` is WEFT_REASON_*. The ranges never change after configure,
   * nor does what lies at `value` by itself: what the host has written is what the next publish shows.
   * [control] [no collective] since 0.2 */
  weft_status (*publish)(weft_strategy* strategy, uint32_t reason, weft_shard_sink* sink, weft_error* error);

  /* Called when the host has written the published values and working copies, with the reason for which it
   * had them published: refreshes what else is derived from them. May be NULL. [control] [may block] since
   * 0.2 */
  weft_status (*values_changed)(weft_strategy* strategy, uint32_t reason, weft_error* error);

  /* Sets all gradients to zero or frees them. [control] [no collective] since 0.2 */
  weft_status (*zero_gradients)(weft_strategy* strategy, weft_error* error);

  /* Estimates what a rank would hold and send, from shapes alone. The host has already applied the tensor
   * axis to the shapes, and has left the units and parameters of one pipeline stage; arguments->world_size is
   * the number of ranks that both axes leave. `out` is zero on entry. May be NULL: no estimate. [any thread]
   * [no collective] since 0.2 */
  weft_status (*estimate)(const weft_strategy_api* api, const weft_strategy_arguments* arguments,
                          const weft_job_shape* job, weft_job_estimate* out, weft_error* error);

  /* Lets the ranks along some axes train on their own for several updates, each from the values and with the
   * optimizer states that it has (local SGD). Writes in `axes` over which of the data-parallel axes these
   * replicas differ, and in `updates` how many updates lie between two merges, at least 1. Called once, after
   * configure, on every rank with the same answer. NULL: all replicas are the same after every update.
   *
   * The strategy sums gradients over the other gradient_axes alone, and splits no range over `axes`. The host
   * multiplies losses by the number of replicas, so each replica gets the gradient of the mean loss over its
   * own samples; one with more labels than the others gets a larger one in proportion. Gradients are clipped
   * alike on all of them, by the root of the mean of their squared norms. Optimizers that use sums over a
   * whole parameter are refused. [control] [no collective] since 0.2
   */
  weft_status (*merge_interval)(weft_strategy* strategy, uint64_t* updates, uint32_t* axes,
                                weft_error* error);

  /* Makes the replicas the same: writes into the published values those from which all of them go on. Called
   * after each update whose number is a multiple of `updates`, and earlier if the host saves or passes the
   * values on. Then the host makes the working copies, calls values_changed(WEFT_REASON_MERGE), and compares
   * the replicas. Merged before the first update, values stay as they are. Not NULL if merge_interval is not.
   * [control] [may block] since 0.2 */
  weft_status (*merge_replicas)(weft_strategy* strategy, weft_error* error);
};

/* What get_factory(WEFT_FACTORY_STRATEGY) returns: finds a strategy of the library by its name. */
typedef struct weft_strategy_factory weft_strategy_factory;
struct weft_strategy_factory {
  uint64_t struct_size;
  /* [any thread] [no collective] since 0.2 */
  const weft_strategy_api* (*find)(const weft_strategy_factory* factory, weft_str name);
};

WEFT_END_C

#endif

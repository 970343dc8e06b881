/* The services of the host for strategies: units and parameters of the model, memory, and steps with a
 * schedule of the strategy's own. Extensions "weft.model/1", "weft.memory/1" and "weft.step/1", tiers
 * stable and torch.
 *
 * The host owns the model, the optimizer, the loss and every call of the autograd engine. A strategy owns the
 * storage of the parameters and decides when parameters are gathered and released and when gradients are
 * reduced. The host divides the loss by the global number of labels, so strategies SUM each gradient over the
 * parameter's gradient_axes and never average. */
#ifndef WEFT_TRAINING_H
#define WEFT_TRAINING_H

#include "comm.h"
#include "types.h"

WEFT_BEGIN_C

/* The ids of the extensions. */
#define WEFT_MODEL_SERVICES "weft.model/1"
#define WEFT_MEMORY_SERVICES "weft.memory/1"
#define WEFT_STEP_SERVICES "weft.step/1"

/* A piece of the model that is scheduled as a whole, and a parameter. The host owns them; they are valid
 * until the training is destroyed. */
typedef struct weft_unit weft_unit;
typedef struct weft_param weft_param;
typedef struct weft_state weft_state; /* named tensors that pass between units */
typedef struct weft_step weft_step;   /* one step, borrowed for run_step */

/* Describes a parameter. Where the host divides the units among pipeline stages (weft/strategy.h), a strategy
 * sees the units that this rank runs and the parameters of these units, as if they were the model. Indexes of
 * units and parameters count these alone. */
typedef struct weft_param_info {
  uint64_t struct_size;
  weft_str name;           /* valid as long as the parameter */
  uint32_t index;          /* param(index) returns it */
  uint32_t frozen;         /* 1: it never gets a gradient */
  uint32_t first_unit;     /* the first unit that uses it and owns it: its backward completes the gradient */
  uint32_t num_units;      /* how many units use it */
  uint32_t partition_axes; /* the plan shards it over these axes: ranks along them hold different parts */
  uint32_t gradient_axes;  /* its gradient must be summed over these axes, usually those of "samples" */
  uint32_t working_dtype;  /* WEFT_F32, ...: the dtype that the layers compute with */
  uint32_t master_dtype;   /* the dtype that the optimizer updates; if frozen, the working dtype */
  uint32_t ndim;           /* of both shapes */
  uint32_t across_stages;  /* 1: other stages use it, too; its gradient is complete only in gradient_ready */
  int64_t shape[WEFT_MAX_DIMS]; /* of the whole parameter, independent of the mesh */
  int64_t local[WEFT_MAX_DIMS]; /* of this rank's part, which the layer computes with */
  int64_t count;                /* elements of the part */
} weft_param_info;

/* The units, parameters and buffers of the model. */
typedef struct weft_model_services { /* [step] [no collective] since 0.2, all of them */
  uint64_t struct_size;
  uint32_t (*unit_count)(weft_training* training);
  weft_unit* (*unit)(weft_training* training, uint32_t index);
  uint32_t (*unit_index)(weft_unit* unit);
  weft_str (*unit_name)(weft_unit* unit);
  /* Writes the parameters that the unit uses, tied ones included, to `out`, at most `capacity` of them.
   * Returns how many there are. */
  uint32_t (*unit_params)(weft_unit* unit, weft_param** out, uint32_t capacity);
  uint32_t (*param_count)(weft_training* training);
  weft_param* (*param)(weft_training* training, uint32_t index);
  weft_status (*param_info)(weft_param* param, weft_param_info* out, weft_error* error);
  uint32_t (*param_used_by)(weft_param* param, weft_unit* unit);

  /* Reads elements [begin, begin + count) of this rank's flattened part into `destination`, which has `count`
   * elements, and converts them to its dtype. The values come from the checkpoint if there is one, otherwise
   * from the model's initialisation. */
  weft_status (*param_read)(weft_param* param, int64_t begin, int64_t count,
                            const weft_at_tensor* destination, weft_error* error);
  /* Gives the parameter its storage: a tensor of shape `local` in the working dtype, which may be a view.
   * Called once per parameter, in configure. A parameter that is never bound stays without memory. */
  weft_status (*param_bind)(weft_param* param, const weft_at_tensor* storage, weft_error* error);
  /* Returns the tensor of the parameter. Its address never changes. */
  const weft_at_tensor* (*param_tensor)(weft_param* param);
  /* Returns the tensor into which backward accumulates the gradient of the parameter, or NULL if there is
   * none yet. Valid until the gradient is replaced. */
  const weft_at_tensor* (*param_gradient)(weft_param* param);
  /* Replaces that tensor by one of the parameter's shape, dtype and device; NULL takes it away. */
  weft_status (*param_set_gradient)(weft_param* param, const weft_at_tensor* gradient, weft_error* error);

  /* Buffers, which are state that is not trained. They have their storage and values before configure. */
  uint32_t (*buffer_count)(weft_training* training);
  weft_str (*buffer_name)(weft_training* training, uint32_t index);
  const weft_at_tensor* (*buffer_tensor)(weft_training* training, uint32_t index);
} weft_model_services;

/* The memory of tensors. */
typedef struct weft_memory_services {
  uint64_t struct_size;
  /* Resizes the storage of a tensor to `elements` of its dtype; 0 frees the memory. The sizes and strides of
   * the tensor and of its views do not change. [step] [no collective] since 0.2 */
  weft_status (*resize_storage)(const weft_at_tensor* tensor, int64_t elements, weft_error* error);
} weft_memory_services;

/* The parts of one step, for a strategy that schedules units and micro-batches itself. */
typedef struct weft_step_services { /* [step] [may block] since 0.2, all of them: inside run_step */
  uint64_t struct_size;
  uint32_t (*micro_count)(weft_step* step);
  uint32_t (*training)(weft_step* step); /* 0: evaluation, forward only and without gradients */

  /* Creates the state that the first unit takes. The caller owns it. */
  weft_status (*input)(weft_step* step, uint32_t micro, weft_state** own, weft_error* error);
  /* Creates a state of empty tensors with the shapes that the unit `entering` takes, to receive them from
   * another rank. They require grad. The caller owns the state. */
  weft_status (*boundary)(weft_step* step, uint32_t micro, weft_unit* entering, weft_state** own,
                          weft_error* error);
  /* Runs the forward of one unit on the state in place, and the forward hooks. Blocks if the hooks do. */
  weft_status (*forward)(weft_step* step, uint32_t micro, weft_unit* unit, weft_state* inout,
                         weft_error* error);
  /* Takes the state after the last unit: computes the loss in training, keeps the outputs in evaluation. */
  weft_status (*finish)(weft_step* step, uint32_t micro, weft_state* last, weft_error* error);
  /* Runs the backward of one micro-batch: from the loss if both states are NULL, otherwise from `outputs`
   * with their `gradients`. Blocks if the backward hooks do. */
  weft_status (*backward)(weft_step* step, uint32_t micro, weft_state* outputs, weft_state* gradients,
                          weft_error* error);

  weft_state* (*state_create)(void);
  void (*state_destroy)(weft_state* state);
  uint32_t (*state_size)(weft_state* state);
  weft_str (*state_name)(weft_state* state, uint32_t index);
  const weft_at_tensor* (*state_tensor)(weft_state* state, uint32_t index);
  /* Adds a named tensor, or replaces the one of this name. */
  weft_status (*state_set)(weft_state* state, weft_str name, const weft_at_tensor* tensor, weft_error* error);
} weft_step_services;

WEFT_END_C

#endif

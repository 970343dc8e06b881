/* What a strategy sees of a training: the units and parameters of the model, memory, and the steps of its own
 * schedule. Extensions "weft.model/1", "weft.memory/1" and "weft.step/1", tier torch.
 *
 * The host owns the model, the optimizer, the loss and every call of the autograd engine; a strategy owns the
 * storage behind parameters and decides when things are gathered, reduced and released. The loss is divided
 * by the global count of labels; strategies SUM over each parameter's gradient_axes and nobody averages. */
#ifndef WEFT_TRAINING_H
#define WEFT_TRAINING_H

#include "comm.h"
#include "types.h"

WEFT_BEGIN_C

/* The ids of the extensions. */
#define WEFT_MODEL_SERVICES "weft.model/1"
#define WEFT_MEMORY_SERVICES "weft.memory/1"
#define WEFT_STEP_SERVICES "weft.step/1"

typedef struct weft_unit weft_unit;   /* a piece of the model that is scheduled as a whole */
typedef struct weft_param weft_param; /* both are owned by the host, valid until the training is destroyed */
typedef struct weft_state weft_state; /* named tensors that pass between units */
typedef struct weft_step weft_step;   /* borrowed for run_step */

/* What a parameter is. */
typedef struct weft_param_info {
  uint64_t struct_size;
  weft_str name; /* valid as long as the parameter */
  uint32_t index;
  uint32_t frozen;         /* 1: never gets a gradient */
  uint32_t first_unit;     /* its owner: the first unit that uses it, whose backward completes its gradient */
  uint32_t num_units;      /* how many units use it */
  uint32_t partition_axes; /* the plan split it over these axes: ranks along them hold different parts */
  uint32_t gradient_axes;  /* its gradient is to be summed over these axes; mostly those of "samples" */
  uint32_t working_dtype;  /* WEFT_F32 ...: what the layers compute with */
  uint32_t master_dtype;   /* what the optimizer updates; of a frozen one the working dtype */
  uint32_t ndim;           /* of both shapes */
  uint32_t reserved;
  int64_t shape[WEFT_MAX_DIMS]; /* of the whole parameter, independent of the mesh */
  int64_t local[WEFT_MAX_DIMS]; /* of this rank's part, which the layer computes with */
  int64_t count;                /* elements of the part */
} weft_param_info;

/* Units, parameters and buffers of the model. */
typedef struct weft_model_services { /* [control, step] [no collective], all of them */
  uint64_t struct_size;
  uint32_t (*unit_count)(weft_training* training);
  weft_unit* (*unit)(weft_training* training, uint32_t index);
  uint32_t (*unit_index)(weft_unit* unit);
  weft_str (*unit_name)(weft_unit* unit);
  /* Every parameter that the unit uses, tied ones too; writes at most `capacity` and returns how many there
   * are. */
  uint32_t (*unit_params)(weft_unit* unit, weft_param** out, uint32_t capacity);
  uint32_t (*param_count)(weft_training* training);
  weft_param* (*param)(weft_training* training, uint32_t index);
  weft_status (*param_info)(weft_param* param, weft_param_info* out, weft_error* error);
  uint32_t (*param_used_by)(weft_param* param, weft_unit* unit);

  /* Writes elements [begin, begin + count) of this rank's part, flattened, into `destination` (count
   * elements, its dtype): from the checkpoint if there is one, otherwise the initial values. */
  weft_status (*param_read)(weft_param* param, int64_t begin, int64_t count,
                            const weft_at_tensor* destination, weft_error* error);
  /* Gives the parameter its storage: a tensor of shape `local` in the working dtype, which may be a view.
   * Once per parameter, in configure; a parameter that is not bound stays without memory. */
  weft_status (*param_bind)(weft_param* param, const weft_at_tensor* storage, weft_error* error);
  /* The tensor itself; the same address for the life of the training. */
  const weft_at_tensor* (*param_tensor)(weft_param* param);

  /* Buffers: state that is no parameter. They have their storage and values before configure. */
  uint32_t (*buffer_count)(weft_training* training);
  weft_str (*buffer_name)(weft_training* training, uint32_t index);
  const weft_at_tensor* (*buffer_tensor)(weft_training* training, uint32_t index);
} weft_model_services;

/* Memory of tensors. */
typedef struct weft_memory_services {
  uint64_t struct_size;
  /* Resizes the storage behind a tensor to `elements` of its dtype; 0 frees the memory. Sizes, strides and
   * views stay. [control, step] [no collective] since 0.1 */
  weft_status (*resize_storage)(const weft_at_tensor* tensor, int64_t elements, weft_error* error);
} weft_memory_services;

/* The steps of a schedule of the strategy's own. */
typedef struct weft_step_services { /* inside run_step, on the thread that called it */
  uint64_t struct_size;
  uint32_t (*micro_count)(weft_step* step);
  uint32_t (*training)(weft_step* step); /* 0: forward only, grad mode off */

  /* What the first unit takes. The caller owns it. */
  weft_status (*input)(weft_step* step, uint32_t micro, weft_state** own, weft_error* error);
  /* Empty tensors of the shapes that enter `unit`, to receive into, with requires_grad set. The caller owns
   * it. */
  weft_status (*boundary)(weft_step* step, uint32_t micro, weft_unit* entering, weft_state** own,
                          weft_error* error);
  /* Runs one unit; updates the state in place; fires the forward hooks. Blocks if they do. */
  weft_status (*forward)(weft_step* step, uint32_t micro, weft_unit* unit, weft_state* inout,
                         weft_error* error);
  /* Takes what the last unit gave: the loss when training, the outputs otherwise. */
  weft_status (*finish)(weft_step* step, uint32_t micro, weft_state* last, weft_error* error);
  /* Backward of one micro-batch: from the loss (NULL, NULL), or from `outputs` with their `gradients`. Blocks
   * if the backward hooks do. */
  weft_status (*backward)(weft_step* step, uint32_t micro, weft_state* outputs, weft_state* gradients,
                          weft_error* error);

  weft_state* (*state_create)(void);
  void (*state_destroy)(weft_state* state);
  uint32_t (*state_size)(weft_state* state);
  weft_str (*state_name)(weft_state* state, uint32_t index);
  const weft_at_tensor* (*state_tensor)(weft_state* state, uint32_t index);
  /* Adds or replaces a field. */
  weft_status (*state_set)(weft_state* state, weft_str name, const weft_at_tensor* tensor, weft_error* error);
} weft_step_services;

WEFT_END_C

#endif

/* Hooks of a training: functions that are called at certain moments of each step.
 *
 * A hook is plain data and functions. The host describes the moment, and the hook answers with requests: to
 * stop, to evaluate, to save, to leave out a step. Programs pass hooks to a trainer (weft_trainer_create in
 * booster.h). Libraries of plugin kind "hook" (factory "weft.factory.hook/1", tier c) make hooks that users
 * choose by name, with `weft train --hook NAME`. */
#ifndef WEFT_HOOK_H
#define WEFT_HOOK_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_HOOK "weft.factory.hook/1"

/* The moments, in their order within a step. Every rank calls a hook at the same moments, except that ranks
 * of a pipeline run their micro-batches in different orders. */
#define WEFT_MOMENT_BEGIN 0u              /* once, after the saved state is restored */
#define WEFT_MOMENT_BEFORE_EPOCH 1u       /* of each epoch, also of one that goes on in the middle */
#define WEFT_MOMENT_BEFORE_STEP 2u        /* of each step; its batch is loaded */
#define WEFT_MOMENT_BEFORE_MICRO_BATCH 3u /* the first unit of this rank begins its forward */
#define WEFT_MOMENT_AFTER_MICRO_BATCH 4u  /* the last part of its backward on this rank has ended */
#define WEFT_MOMENT_BEFORE_UPDATE 5u      /* the gradients are complete */
#define WEFT_MOMENT_AFTER_UPDATE 6u       /* the parameters have changed; left out if nothing was updated */
#define WEFT_MOMENT_AFTER_STEP 7u         /* the results of the step are known */
#define WEFT_MOMENT_AFTER_EPOCH 8u        /* if the step was the last one of its epoch */
#define WEFT_MOMENT_BEFORE_EVALUATION 9u  /* if one is due or was asked for */
#define WEFT_MOMENT_AFTER_EVALUATION 10u  /* left out if the job was asked to stop meanwhile */
#define WEFT_MOMENT_BEFORE_SAVE 11u       /* around each save, which may also come at the end */
#define WEFT_MOMENT_AFTER_SAVE 12u
#define WEFT_MOMENT_END_STEP 13u /* of each step; checkpoints are written here */
#define WEFT_MOMENT_END 14u      /* once, after the last step */
#define WEFT_MOMENTS 15u         /* how many there are */
/* The bit of a moment in weft_hook::moments. */
#define WEFT_MOMENT_BIT(moment) (UINT64_C(1) << (moment))

/* Facts about the step of a moment, as bits. */
#define WEFT_STEP_ENDS_EPOCH 1u   /* it is the last one of its epoch */
#define WEFT_STEP_IS_LAST 2u      /* no step follows, as far as this rank knows */
#define WEFT_STEP_STOPS 4u        /* something asked to stop */
#define WEFT_STEP_IS_EVALUATED 8u /* the training is evaluated after it without a request */

/* Requests of a hook, as bits. A request at a moment where it has no effect is an error that names both.
 *
 * STOP, EVALUATE and SAVE may come from some of the ranks alone: the ranks combine them when the step has
 * ended and again after an evaluation, with an all-reduce of a few bytes, and then all of them act. Each rank
 * must ask alike for SKIP and CHECK_STEP. */
#define WEFT_ASK_STOP 1u        /* end the training after this step; up to WEFT_MOMENT_AFTER_EVALUATION */
#define WEFT_ASK_SKIP 2u        /* BEFORE_STEP: leave out the step; BEFORE_UPDATE: forget the gradients */
#define WEFT_ASK_EVALUATE 4u    /* evaluate after this step; from BEFORE_STEP to AFTER_EPOCH */
#define WEFT_ASK_SAVE 8u        /* save to step-N/ after this step; from BEFORE_STEP to AFTER_EVALUATION */
#define WEFT_ASK_CHECK_STEP 16u /* BEFORE_STEP: compare gradients and parameters between the ranks */

/* The results of one training step. */
typedef struct weft_step_result {
  uint64_t struct_size;
  int64_t index;    /* of the step, from 1 */
  double loss;      /* mean over every counted label of the global batch, with auxiliary losses */
  double grad_norm; /* -1 without clipping */
  double lr;
  double seconds;
  double tokens_per_second; /* over all ranks */
  double auxiliary_loss;    /* the part of `loss` that layers added; 0 if no layer did */
  uint32_t stop;            /* 1: a rank asked to stop (weft_stop_signals, weft_job_request_stop) */
  uint32_t updated;         /* 0: the parameters did not change: an overflow, no labels, or a hook said so */
  double loss_scale;        /* by which the loss was multiplied, with fp16; otherwise 0 */
} weft_step_result;

/* A value that an evaluation found: "loss", "perplexity", "accuracy", "NAME/loss" of one of several sets. */
typedef struct weft_evaluation_value {
  weft_str name;
  double value;     /* NaN if it is undefined */
  uint32_t defined; /* 0: it is undefined, such as the accuracy over no label */
  uint32_t reserved;
} weft_evaluation_value;

/* A moment of a training, as the host describes it. Valid during the call. */
typedef struct weft_moment {
  uint64_t struct_size;
  uint32_t kind;        /* WEFT_MOMENT_* */
  uint32_t flags;       /* of WEFT_STEP_* */
  int64_t step;         /* that runs, or has run last, from 1; 0 before the first one */
  int64_t total_steps;  /* after which the training ends */
  int64_t epoch;        /* of the step, from 0 */
  uint32_t micro_batch; /* of the moments of micro-batches, from 0 */
  uint32_t rank;
  uint32_t world_size;
  uint32_t reserved;
  /* Of the step, from WEFT_MOMENT_AFTER_STEP on; NULL before, and if the step was left out. */
  const weft_step_result* result;
  /* What the newest evaluation found, sorted by name; the same on all ranks. */
  const weft_evaluation_value* evaluation;
  uint64_t num_evaluation; /* 0 before the first evaluation */
  int64_t evaluated_step;  /* after which it was; -1 before the first one */
  weft_str folder;         /* of a save; otherwise empty */
} weft_moment;

/* A hook. The names and moments of hooks are the same on every rank. */
typedef struct weft_hook {
  uint64_t struct_size;
  void* context; /* of the owner's own */
  weft_str name; /* the hooks of a training have different names; of a library: the one it was created by */
  uint64_t moments; /* at which `at` is called: of WEFT_MOMENT_BIT() */

  /* Called at a moment, in the thread that trains, hook by hook in their order. Sets `*requests`, which is 0,
   * to bits of WEFT_ASK_*. A failure ends the training with its text. Up to WEFT_MOMENT_AFTER_EVALUATION it
   * may come on one rank alone, and all ranks end when the step has ended. At a later moment it must come on
   * every rank: the others wait for one that fails alone until it ends or their timeout. May be NULL if
   * `moments` is 0. [control] [no collective] since 0.2 */
  weft_status (*at)(void* context, const weft_moment* moment, uint32_t* requests, weft_error* error);

  /* Appends what a save of the training keeps for this hook, as text; nothing: it keeps nothing. The text of
   * rank 0 is saved. NULL: the hook has no state. [control] [no collective] since 0.2 */
  weft_status (*state)(void* context, const weft_text_sink* text, weft_error* error);
  /* Gets that text on every rank, before WEFT_MOMENT_BEGIN, if the job was loaded from such a save. Errors:
   * INVALID_ARGUMENT for a text of something else. NULL exactly if `state` is. [control] [no collective]
   * since 0.2 */
  weft_status (*restore)(void* context, weft_str state, weft_error* error);
} weft_hook;

/* What get_factory(WEFT_FACTORY_HOOK) returns. */
typedef struct weft_hook_factory weft_hook_factory;
struct weft_hook_factory {
  uint64_t struct_size;
  /* Makes a hook of the library. `name` is one that its plugin.json says it provides, and `options` are all
   * that plugin.json declares. The library owns the struct until `destroy`. Errors: INVALID_ARGUMENT for
   * options that contradict each other. [control] [no collective] since 0.2 */
  weft_status (*create)(const weft_hook_factory* factory, weft_str name, const weft_kv* options,
                        uint64_t num_options, const weft_hook** own, weft_error* error);
  /* Destroys a hook of this factory; `at` need not have been called. NULL is accepted. [control]
   * [no collective] since 0.2 */
  void (*destroy)(const weft_hook_factory* factory, const weft_hook* hook);
};

WEFT_END_C

#endif

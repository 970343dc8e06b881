/* Training from C: a model, an optimizer and data under a strategy that is found by name. Exported by
 * libweft.so, which loads the engine and libtorch on first use; a program links libweft only.
 *
 * All functions are [control]: call them from one thread of a rank. Collective functions may block until
 * every rank calls them. Options are JSON objects; an empty string selects the defaults, and an unknown key
 * is an error that names the nearest one. The caller destroys objects, in any order; NULL is accepted. since
 * 0.2 */
#ifndef WEFT_BOOSTER_H
#define WEFT_BOOSTER_H

#include "hook.h"
#include "runtime.h"
#include "tensor.h"

WEFT_BEGIN_C

/* Objects that the caller owns. */
typedef struct weft_model weft_model;
typedef struct weft_optimizer weft_optimizer;
typedef struct weft_scheduler weft_scheduler;
typedef struct weft_data weft_data;
typedef struct weft_booster weft_booster;
typedef struct weft_job weft_job;

/* Opens a model folder or a config.json. The model has no memory until it is boosted. Options: those of
 * weft_model_open in sdk/docs/options.md. */
WEFT_EXPORT weft_status weft_model_open(weft_runtime* runtime, weft_str path, weft_str options,
                                        weft_model** own, weft_error* error);
WEFT_EXPORT void weft_model_destroy(weft_model* model);

/* Adds an adapter to a model that is not boosted yet, such as a low-rank one, and freezes all other
 * parameters. `adapter` is a JSON object, or the path of an adapter's folder or file; sdk/docs/application.md
 * describes both. Errors: FAILED_PRECONDITION for a model that is adapted or boosted already. */
WEFT_EXPORT weft_status weft_model_adapt(weft_model* model, weft_str adapter, weft_error* error);

/* Makes an optimizer over all parameters that are trained, by the name of its rule: "sgd", "adamw", "lamb",
 * "adafactor", ... Options: "lr", "weight_decay", "momentum", "beta1", ... with PyTorch's or Colossal-AI's
 * defaults; and "groups", an array of objects with options of their own for the parameters whose names match
 * "parameters", an array of patterns of fnmatch(3): {"parameters": ["*.bias"], "weight_decay": 0}. A
 * parameter belongs to the first group that it matches. Errors: NOT_FOUND for a pattern that matches none. */
WEFT_EXPORT weft_status weft_optimizer_create(weft_runtime* runtime, weft_model* model, weft_str name,
                                              weft_str options, weft_optimizer** own, weft_error* error);
WEFT_EXPORT void weft_optimizer_destroy(weft_optimizer* optimizer);

/* Makes a schedule by name: "constant", "linear_warmup", "cosine_annealing_warmup", ... Options:
 * "warmup_steps", "total_steps", and those of the schedule, which weft/optim/scheduler.hpp lists. */
WEFT_EXPORT weft_status weft_scheduler_create(weft_runtime* runtime, weft_optimizer* optimizer, weft_str name,
                                              weft_str options, weft_scheduler** own, weft_error* error);
WEFT_EXPORT void weft_scheduler_destroy(weft_scheduler* scheduler);

/* Opens data for this model as `weft train --data` does, and joins the ranks of the job (collective): text,
 * JSON lines, chats and folders of them, with the tokenizer in the model's folder; files of questions,
 * folders of images or recordings, for models that read these; .bin tokens; .safetensors tensors. Text is
 * tokenized before the call returns. A model without a tokenizer reads the bytes of text as tokens. Options:
 * those of weft_data_open in sdk/docs/options.md, such as "batch_size" (over all ranks), "sequence_length",
 * "shuffle" and "objective". One without effect on the data is refused. */
WEFT_EXPORT weft_status weft_data_open(weft_runtime* runtime, weft_model* model, weft_str path,
                                       weft_str options, weft_data** own, weft_error* error);
WEFT_EXPORT void weft_data_destroy(weft_data* data);

/* Makes a booster and joins the ranks of the job (collective). Options: those of the section "Strategy and
 * precision" in sdk/docs/options.md, such as "strategy", "options" (an object), "precision" and "device". */
WEFT_EXPORT weft_status weft_booster_create(weft_runtime* runtime, weft_str options, weft_booster** own,
                                            weft_error* error);
WEFT_EXPORT void weft_booster_destroy(weft_booster* booster);

/* Which rank this process is, and how many there are: of all, and of those that train on different samples
 * once a job is boosted (before that, all). */
typedef struct weft_place {
  uint64_t struct_size;
  uint32_t rank, world_size;
  uint32_t data_rank, data_size;
} weft_place;
WEFT_EXPORT weft_status weft_booster_place(weft_booster* booster, weft_place* out, weft_error* error);

/* A named tensor, and several: a batch, or outputs. Borrowed for the call. */
typedef struct weft_field {
  weft_str name;
  const weft_tensor* tensor;
} weft_field;
typedef struct weft_fields {
  const weft_field* data;
  uint64_t size;
} weft_fields;

/* What a loss function is given, and what it sets. Borrowed for the call. */
typedef struct weft_loss_arguments {
  uint64_t struct_size;
  weft_fields outputs; /* of the model */
  weft_fields batch;
  double* loss;
  /* An entry for each output, all NULL: set it to the derivative of the loss with respect to that output,
   * with its shape and dtype, or leave it NULL if the loss does not depend on it. Weft destroys the tensors.
   */
  weft_tensor** gradients;
} weft_loss_arguments;

/* A loss function of the caller. */
typedef struct weft_criterion {
  uint64_t struct_size;
  void* context;
  /* [control] [no collective] since 0.2 */
  weft_status (*loss)(void* context, const weft_loss_arguments* arguments, weft_error* error);
} weft_criterion;

/* What a booster puts under its strategy. */
typedef struct weft_boost_arguments {
  uint64_t struct_size;
  weft_model* model;
  weft_optimizer* optimizer;       /* NULL: the job does not train */
  weft_data* data;                 /* NULL: the caller gives the batches */
  weft_scheduler* scheduler;       /* NULL: the rate stays as it is */
  const weft_criterion* criterion; /* NULL: the model's own loss; it and its context must outlive the job */
} weft_boost_arguments;

/* Puts a model, its optimizer and data under the strategy (collective). */
WEFT_EXPORT weft_status weft_booster_boost(weft_booster* booster, const weft_boost_arguments* arguments,
                                           weft_job** own, weft_error* error);
/* Moves a job to the strategy of this booster, in memory (collective). Parameters, optimizer states, schedule
 * and data position are kept. Call it between steps: it fails with FAILED_PRECONDITION if there are gradients
 * that no step has used. After a failure the job continues under its previous strategy. */
WEFT_EXPORT weft_status weft_booster_take_over(weft_booster* booster, weft_job* job, weft_error* error);
WEFT_EXPORT void weft_job_destroy(weft_job* job);

/* Trains on the next batch of the job's data (collective). Returns OUT_OF_RANGE once at the end of each
 * epoch. */
WEFT_EXPORT weft_status weft_job_next(weft_job* job, weft_step_result* out, weft_error* error);
/* Trains on this rank's part of a batch (collective). */
WEFT_EXPORT weft_status weft_job_train_step(weft_job* job, weft_fields batch, weft_step_result* out,
                                            weft_error* error);
/* Asks every rank to stop: the result of the next step has `stop` set on all of them. Any thread, but not in
 * a signal handler. */
WEFT_EXPORT weft_status weft_job_request_stop(weft_job* job, weft_error* error);

/* SIGINT, SIGTERM and SIGHUP stop the job: the result of the current step has `stop` set on every rank, so
 * that the program can save. From the creation to the destruction of the object, both in the thread that
 * trains. A second SIGINT or SIGTERM ends the process; ignored signals stay ignored. Sets handlers with
 * SA_ONSTACK, and gives the thread an alternate stack unless it has one; weft/stop_signals.hpp says more. One
 * at a time. */
typedef struct weft_stop_signals weft_stop_signals;
WEFT_EXPORT weft_status weft_stop_signals_create(weft_job* job, weft_stop_signals** own, weft_error* error);
/* Sets `*number` to the signal that stopped the job, the same on every rank: ranks end with exit code 128 +
 * `*number`. SIGINT stands for weft_job_request_stop (collective). */
WEFT_EXPORT weft_status weft_stop_signals_agree(weft_stop_signals* signals, int32_t* number,
                                                weft_error* error);
WEFT_EXPORT void weft_stop_signals_destroy(weft_stop_signals* signals);

/* Computes the loss of a batch over all ranks, without training; `batch` is this rank's part (collective). */
WEFT_EXPORT weft_status weft_job_evaluate(weft_job* job, weft_fields batch, double* loss, weft_error* error);
/* A metric of an evaluation: "accuracy", "exact_match", ... `count` is how many labels or answers it
 * averages. */
typedef struct weft_metric {
  uint64_t struct_size;
  weft_str name; /* valid until the next evaluation of the job */
  double value;  /* NaN if `count` is 0, or the metric is undefined */
  double count;
} weft_metric;
/* Fills `out` with metric number `index` of the job's last weft_job_evaluate. Errors: OUT_OF_RANGE behind the
 * last one; models without metrics have none. */
WEFT_EXPORT weft_status weft_job_metric(weft_job* job, uint64_t index, weft_metric* out, weft_error* error);
/* Data on which a trainer evaluates, opened with "shuffle" and "drop_last" false. The name of the only set
 * may be empty. */
typedef struct weft_evaluation_set {
  weft_str name;
  weft_data* data;
} weft_evaluation_set;

/* What a trainer is told beside its job. */
typedef struct weft_trainer_arguments {
  uint64_t struct_size;
  weft_str options;              /* see weft_trainer_create */
  const weft_hook* const* hooks; /* of the program, called before those of the options; they and their
                                  * contexts must outlive the trainer */
  uint64_t num_hooks;
  const weft_evaluation_set* evaluation; /* its data may be destroyed after the call */
  uint64_t num_evaluation;
} weft_trainer_arguments;

/* Runs the training of a job: its loop, evaluation, and what the options ask for. */
typedef struct weft_trainer weft_trainer;
/* Makes a trainer for a job with an optimizer and data (collective). Options: those of weft_trainer_create in
 * sdk/docs/options.md, which mean what the flags of `weft train` do: "steps" or "epochs", "evaluate_every",
 * "output", "save_every", "keep_last", "keep_best", "patience", "on_nonfinite", "metrics", "progress", "hook"
 * ... Rank 0 prints to stderr what is saved and why a training stops, and with "progress" its steps and
 * evaluations. Errors: INVALID_ARGUMENT for options that have no effect together, for two hooks of one name,
 * and for evaluation data that is shuffled or leaves out samples; FAILED_PRECONDITION for a job without
 * optimizer or data, and for ranks with different options or hooks. */
WEFT_EXPORT weft_status weft_trainer_create(weft_booster* booster, weft_job* job,
                                            const weft_trainer_arguments* arguments, weft_trainer** own,
                                            weft_error* error);
/* Trains from the step of the job to the last one, or until something asks to stop (collective). A job that
 * was loaded with weft_booster_load_training goes on, and its hooks get their state. Errors: ABORTED if the
 * training has diverged; FAILED_PRECONDITION for a second call; what a hook fails with; UNAVAILABLE if the
 * training has ended, but its metrics could not be written. After a failure on one rank alone, other than
 * that of a hook, the others wait for it until its process ends. */
WEFT_EXPORT weft_status weft_trainer_fit(weft_trainer* trainer, weft_error* error);
/* Fills `out` with what a hook would see at WEFT_MOMENT_END: the step, its results and the values of the
 * newest evaluation, which are valid until the next call for this trainer. */
WEFT_EXPORT weft_status weft_trainer_describe(weft_trainer* trainer, weft_moment* out, weft_error* error);
WEFT_EXPORT void weft_trainer_destroy(weft_trainer* trainer);

/* Runs forward in evaluation mode and returns one output by its Hugging Face name, "logits" (collective).
 * With pipeline stages the ranks that run the last unit get it, and `*own` is NULL on the others. */
WEFT_EXPORT weft_status weft_job_forward(weft_job* job, weft_fields batch, weft_str output, weft_tensor** own,
                                         weft_error* error);

/* The parts of a training step, for a loop of the caller's own: forward, loss and backward of one batch
 * (collective), then gradient clipping, the update and zeroing. With `synchronise` 0 gradients accumulate
 * locally, as under no_sync. */
WEFT_EXPORT weft_status weft_job_backward(weft_job* job, weft_fields batch, uint32_t synchronise,
                                          double* loss, weft_error* error);
/* What weft_job_execute_pipeline runs, and where its results go. */
typedef struct weft_pipeline_arguments {
  uint64_t struct_size;
  weft_fields batch; /* the same on every stage */
  weft_str output;   /* the name of what `own` receives; empty if that is NULL */
  weft_tensor** own; /* NULL, on all ranks alike, or where that output goes as weft_job_forward returns it */
  double* loss;      /* NULL, on all ranks alike, or where the loss over all ranks goes */
  uint32_t backward; /* 0: forward alone, and the model is in evaluation mode */
  uint32_t reserved;
} weft_pipeline_arguments;

/* Runs forward and backward of a batch through the pipeline stages, or in one piece without stages
 * (collective). Unlike weft_job_backward it can leave out backward and return an output. */
WEFT_EXPORT weft_status weft_job_execute_pipeline(weft_job* job, const weft_pipeline_arguments* arguments,
                                                  weft_error* error);
WEFT_EXPORT weft_status weft_job_clip_grad_by_norm(weft_job* job, double max_norm, double* norm,
                                                   weft_error* error);
WEFT_EXPORT weft_status weft_job_clip_grad_by_value(weft_job* job, double limit, weft_error* error);
WEFT_EXPORT weft_status weft_job_step(weft_job* job, weft_error* error);
WEFT_EXPORT weft_status weft_job_zero_grad(weft_job* job, weft_error* error);

/* Save and load checkpoints; all of these functions are collective. Options of saving: "shard", "prefix",
 * "size_per_shard" (MB), "use_safetensors", "background" (writes in a thread; the next save or load waits for
 * it and fails if it failed). If no save or load follows a background save that failed, the process exits
 * with status 1. A folder gets its name only when it is complete. */
WEFT_EXPORT weft_status weft_booster_save_model(weft_booster* booster, weft_job* job, weft_str path,
                                                weft_str options, weft_error* error);
WEFT_EXPORT weft_status weft_booster_load_model(weft_booster* booster, weft_job* job, weft_str path,
                                                uint32_t strict, weft_error* error);
WEFT_EXPORT weft_status weft_booster_save_optimizer(weft_booster* booster, weft_job* job, weft_str path,
                                                    weft_str options, weft_error* error);
WEFT_EXPORT weft_status weft_booster_load_optimizer(weft_booster* booster, weft_job* job, weft_str path,
                                                    weft_error* error);
WEFT_EXPORT weft_status weft_booster_save_lr_scheduler(weft_booster* booster, weft_job* job, weft_str path,
                                                       weft_error* error);
WEFT_EXPORT weft_status weft_booster_load_lr_scheduler(weft_booster* booster, weft_job* job, weft_str path,
                                                       weft_error* error);
/* Waits until a save in the background is complete, and fails if it failed (collective). */
WEFT_EXPORT weft_status weft_booster_finish_saving(weft_booster* booster, weft_error* error);
/* Save and load a model folder with a training_state/, which has all that is needed to resume exactly. */
WEFT_EXPORT weft_status weft_booster_save_training(weft_booster* booster, weft_job* job, weft_str folder,
                                                   weft_str options, weft_error* error);
WEFT_EXPORT weft_status weft_booster_load_training(weft_booster* booster, weft_job* job, weft_str folder,
                                                   weft_error* error);

WEFT_END_C

#endif

/* Training from C: a model, an optimizer and data under a strategy that is found by name. Exported by
 * libweft.so, which loads the engine and libtorch on first use; a program links libweft only.
 *
 * All functions are [control]: call them from one thread of a rank. Collective functions may block until
 * every rank calls them. Options are JSON objects; an empty string selects the defaults, and an unknown key
 * is an error that names the nearest one. The caller destroys objects, in any order; NULL is accepted. since
 * 0.1 */
#ifndef WEFT_BOOSTER_H
#define WEFT_BOOSTER_H

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

/* Makes an optimizer over all parameters that are trained, by the name of its rule: "sgd", "adamw", "lamb",
 * "adafactor", ... Options: "lr", "weight_decay", "momentum", "beta1", ... with PyTorch's or Colossal-AI's
 * defaults. */
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

/* A named tensor of a batch or of the outputs. Borrowed for the call. */
typedef struct weft_field {
  weft_str name;
  const weft_tensor* tensor;
} weft_field;

/* A loss function of the caller. It computes `*loss` from the model's outputs and sets `gradients[i]` to the
 * derivative with respect to `outputs[i]`, with its shape and dtype, or leaves it NULL if the loss does not
 * depend on that output. Weft destroys the tensors that it sets. */
typedef struct weft_criterion {
  uint64_t struct_size;
  void* context;
  weft_status (*loss)(void* context, const weft_field* outputs, uint64_t num_outputs, const weft_field* batch,
                      uint64_t num_batch, double* loss, weft_tensor** gradients, weft_error* error);
} weft_criterion;

/* Puts the model, the optimizer and the data under the strategy (collective). Any of `optimizer`, `criterion`
 * (NULL: the model's own loss), `data` and `scheduler` may be NULL. The criterion and its context must
 * outlive the job. */
WEFT_EXPORT weft_status weft_booster_boost(weft_booster* booster, weft_model* model,
                                           weft_optimizer* optimizer, const weft_criterion* criterion,
                                           weft_data* data, weft_scheduler* scheduler, weft_job** own,
                                           weft_error* error);
/* Moves a job to the strategy of this booster, in memory (collective). Parameters, optimizer states, schedule
 * and data position are kept. Call it between steps: it fails with FAILED_PRECONDITION if there are gradients
 * that no step has used. After a failure the job continues under its previous strategy. */
WEFT_EXPORT weft_status weft_booster_take_over(weft_booster* booster, weft_job* job, weft_error* error);
WEFT_EXPORT void weft_job_destroy(weft_job* job);

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
  uint32_t reserved;
} weft_step_result;

/* Trains on the next batch of the job's data (collective). Returns OUT_OF_RANGE once at the end of each
 * epoch. */
WEFT_EXPORT weft_status weft_job_next(weft_job* job, weft_step_result* out, weft_error* error);
/* Trains on this rank's part of a batch (collective). */
WEFT_EXPORT weft_status weft_job_train_step(weft_job* job, const weft_field* batch, uint64_t num_fields,
                                            weft_step_result* out, weft_error* error);
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
WEFT_EXPORT weft_status weft_job_evaluate(weft_job* job, const weft_field* batch, uint64_t num_fields,
                                          double* loss, weft_error* error);
/* Runs forward in evaluation mode and returns one output by its Hugging Face name, "logits" (collective).
 * With pipeline stages the ranks that run the last unit get it, and `*own` is NULL on the others. */
WEFT_EXPORT weft_status weft_job_forward(weft_job* job, const weft_field* batch, uint64_t num_fields,
                                         weft_str output, weft_tensor** own, weft_error* error);

/* The parts of a training step, for a loop of the caller's own: forward, loss and backward of one batch
 * (collective), then gradient clipping, the update and zeroing. With `synchronise` 0 gradients accumulate
 * locally, as under no_sync. */
WEFT_EXPORT weft_status weft_job_backward(weft_job* job, const weft_field* batch, uint64_t num_fields,
                                          uint32_t synchronise, double* loss, weft_error* error);
/* Runs forward and, unless `backward` is 0, backward of a batch through the pipeline stages, or in one piece
 * without stages (collective); every stage passes the same batch. Unlike weft_job_backward it can leave out
 * backward and return an output. Without backward the model is in evaluation mode. `loss` and `own` may be
 * NULL, on all ranks alike: `*loss` is the loss over all ranks, `*own` the output with this name as
 * weft_job_forward returns it. */
WEFT_EXPORT weft_status weft_job_execute_pipeline(weft_job* job, const weft_field* batch, uint64_t num_fields,
                                                  uint32_t backward, double* loss, weft_str output,
                                                  weft_tensor** own, weft_error* error);
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
/* Save and load a model folder with a training_state/, which has all that is needed to resume exactly. */
WEFT_EXPORT weft_status weft_booster_save_training(weft_booster* booster, weft_job* job, weft_str folder,
                                                   weft_str options, weft_error* error);
WEFT_EXPORT weft_status weft_booster_load_training(weft_booster* booster, weft_job* job, weft_str folder,
                                                   weft_error* error);

WEFT_END_C

#endif

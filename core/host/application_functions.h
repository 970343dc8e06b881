/* The functions of weft/booster.h, weft/generation.h and weft/tensor.h that the engine implements, as X(name,
 * parameters, arguments). The private table and the functions of libweft that forward to it are generated
 * from these lists. In the first list, the last parameter of every function is `error`. */
#ifndef WEFT_APPLICATION_FUNCTIONS_H
#define WEFT_APPLICATION_FUNCTIONS_H

#include <weft/generation.h>

#define WEFT_APPLICATION_STATUS_FUNCTIONS(X)                                                                \
  X(weft_tensor_create, (const weft_tensor_info* info, weft_tensor** own, weft_error* error),               \
    (info, own, error))                                                                                     \
  X(weft_tensor_describe, (const weft_tensor* tensor, weft_tensor_info* out, weft_error* error),            \
    (tensor, out, error))                                                                                   \
  X(weft_model_open,                                                                                        \
    (weft_runtime * runtime, weft_str path, weft_str options, weft_model * *own, weft_error * error),       \
    (runtime, path, options, own, error))                                                                   \
  X(weft_model_adapt, (weft_model * model, weft_str adapter, weft_error * error), (model, adapter, error))  \
  X(weft_optimizer_create,                                                                                  \
    (weft_runtime * runtime, weft_model * model, weft_str name, weft_str options, weft_optimizer * *own,    \
     weft_error * error),                                                                                   \
    (runtime, model, name, options, own, error))                                                            \
  X(weft_scheduler_create,                                                                                  \
    (weft_runtime * runtime, weft_optimizer * optimizer, weft_str name, weft_str options,                   \
     weft_scheduler * *own, weft_error * error),                                                            \
    (runtime, optimizer, name, options, own, error))                                                        \
  X(weft_data_open,                                                                                         \
    (weft_runtime * runtime, weft_model * model, weft_str path, weft_str options, weft_data * *own,         \
     weft_error * error),                                                                                   \
    (runtime, model, path, options, own, error))                                                            \
  X(weft_booster_create,                                                                                    \
    (weft_runtime * runtime, weft_str options, weft_booster * *own, weft_error * error),                    \
    (runtime, options, own, error))                                                                         \
  X(weft_booster_place, (weft_booster * booster, weft_place * out, weft_error * error),                     \
    (booster, out, error))                                                                                  \
  X(weft_booster_finish_saving, (weft_booster * booster, weft_error * error), (booster, error))             \
  X(weft_job_metric, (weft_job * job, uint64_t index, weft_metric * out, weft_error * error),               \
    (job, index, out, error))                                                                               \
  X(weft_booster_boost,                                                                                     \
    (weft_booster * booster, const weft_boost_arguments* arguments, weft_job** own, weft_error* error),     \
    (booster, arguments, own, error))                                                                       \
  X(weft_booster_take_over, (weft_booster * booster, weft_job * job, weft_error * error),                   \
    (booster, job, error))                                                                                  \
  X(weft_job_next, (weft_job * job, weft_step_result * out, weft_error * error), (job, out, error))         \
  X(weft_job_train_step, (weft_job * job, weft_fields batch, weft_step_result * out, weft_error * error),   \
    (job, batch, out, error))                                                                               \
  X(weft_job_request_stop, (weft_job * job, weft_error * error), (job, error))                              \
  X(weft_stop_signals_create, (weft_job * job, weft_stop_signals * *own, weft_error * error),               \
    (job, own, error))                                                                                      \
  X(weft_stop_signals_agree, (weft_stop_signals * signals, int32_t * number, weft_error * error),           \
    (signals, number, error))                                                                               \
  X(weft_job_evaluate, (weft_job * job, weft_fields batch, double* loss, weft_error* error),                \
    (job, batch, loss, error))                                                                              \
  X(weft_job_forward,                                                                                       \
    (weft_job * job, weft_fields batch, weft_str output, weft_tensor * *own, weft_error * error),           \
    (job, batch, output, own, error))                                                                       \
  X(weft_job_backward,                                                                                      \
    (weft_job * job, weft_fields batch, uint32_t synchronise, double* loss, weft_error* error),             \
    (job, batch, synchronise, loss, error))                                                                 \
  X(weft_job_clip_grad_by_norm, (weft_job * job, double max_norm, double* norm, weft_error* error),         \
    (job, max_norm, norm, error))                                                                           \
  X(weft_job_clip_grad_by_value, (weft_job * job, double limit, weft_error* error), (job, limit, error))    \
  X(weft_job_step, (weft_job * job, weft_error * error), (job, error))                                      \
  X(weft_job_zero_grad, (weft_job * job, weft_error * error), (job, error))                                 \
  X(weft_booster_save_model,                                                                                \
    (weft_booster * booster, weft_job * job, weft_str path, weft_str options, weft_error * error),          \
    (booster, job, path, options, error))                                                                   \
  X(weft_booster_load_model,                                                                                \
    (weft_booster * booster, weft_job * job, weft_str path, uint32_t strict, weft_error * error),           \
    (booster, job, path, strict, error))                                                                    \
  X(weft_booster_save_optimizer,                                                                            \
    (weft_booster * booster, weft_job * job, weft_str path, weft_str options, weft_error * error),          \
    (booster, job, path, options, error))                                                                   \
  X(weft_booster_load_optimizer,                                                                            \
    (weft_booster * booster, weft_job * job, weft_str path, weft_error * error),                            \
    (booster, job, path, error))                                                                            \
  X(weft_booster_save_lr_scheduler,                                                                         \
    (weft_booster * booster, weft_job * job, weft_str path, weft_error * error),                            \
    (booster, job, path, error))                                                                            \
  X(weft_booster_load_lr_scheduler,                                                                         \
    (weft_booster * booster, weft_job * job, weft_str path, weft_error * error),                            \
    (booster, job, path, error))                                                                            \
  X(weft_booster_save_training,                                                                             \
    (weft_booster * booster, weft_job * job, weft_str folder, weft_str options, weft_error * error),        \
    (booster, job, folder, options, error))                                                                 \
  X(weft_booster_load_training,                                                                             \
    (weft_booster * booster, weft_job * job, weft_str folder, weft_error * error),                          \
    (booster, job, folder, error))                                                                          \
  X(weft_trainer_create,                                                                                    \
    (weft_booster * booster, weft_job * job, const weft_trainer_arguments* arguments, weft_trainer** own,   \
     weft_error* error),                                                                                    \
    (booster, job, arguments, own, error))                                                                  \
  X(weft_trainer_fit, (weft_trainer * trainer, weft_error * error), (trainer, error))                       \
  X(weft_trainer_describe, (weft_trainer * trainer, weft_moment * out, weft_error * error),                 \
    (trainer, out, error))                                                                                  \
  X(weft_job_execute_pipeline,                                                                              \
    (weft_job * job, const weft_pipeline_arguments* arguments, weft_error* error), (job, arguments, error)) \
  X(weft_tokenizer_open,                                                                                    \
    (weft_runtime * runtime, weft_str folder, weft_tokenizer * *own, weft_error * error),                   \
    (runtime, folder, own, error))                                                                          \
  X(weft_tokenizer_encode,                                                                                  \
    (const weft_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens, weft_tensor** own,        \
     weft_error* error),                                                                                    \
    (tokenizer, text, add_special_tokens, own, error))                                                      \
  X(weft_tokenizer_decode,                                                                                  \
    (const weft_tokenizer* tokenizer, weft_ids ids, uint32_t skip_special_tokens, weft_tensor** own,        \
     weft_error* error),                                                                                    \
    (tokenizer, ids, skip_special_tokens, own, error))                                                      \
  X(weft_job_generate, (weft_job * job, const weft_generation_arguments* arguments, weft_error* error),     \
    (job, arguments, error))

#define WEFT_APPLICATION_DESTROY_FUNCTIONS(X)     \
  X(weft_tensor_destroy, weft_tensor)             \
  X(weft_model_destroy, weft_model)               \
  X(weft_optimizer_destroy, weft_optimizer)       \
  X(weft_scheduler_destroy, weft_scheduler)       \
  X(weft_data_destroy, weft_data)                 \
  X(weft_booster_destroy, weft_booster)           \
  X(weft_job_destroy, weft_job)                   \
  X(weft_stop_signals_destroy, weft_stop_signals) \
  X(weft_trainer_destroy, weft_trainer)           \
  X(weft_tokenizer_destroy, weft_tokenizer)

#define WEFT_SLOT(name, parameters, arguments) weft_status(*name) parameters;
#define WEFT_DESTROY_SLOT(name, type) void (*name)(type*);
typedef struct weft_application_table {
  uint64_t struct_size;
  WEFT_APPLICATION_STATUS_FUNCTIONS(WEFT_SLOT)
  WEFT_APPLICATION_DESTROY_FUNCTIONS(WEFT_DESTROY_SLOT)
} weft_application_table;
#undef WEFT_SLOT
#undef WEFT_DESTROY_SLOT

#endif

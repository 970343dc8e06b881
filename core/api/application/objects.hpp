// The engine's implementation of weft/booster.h, weft/generation.h and weft/tensor.h, whose comments describe
// the functions.
#pragma once

#include "host/application_functions.h"

namespace weft::application {

weft_status tensor_create(const weft_tensor_info* info, weft_tensor** own, weft_error* error);
weft_status tensor_describe(const weft_tensor* tensor, weft_tensor_info* out, weft_error* error);
weft_status model_open(weft_runtime* runtime, weft_str path, weft_str options, weft_model** own,
                       weft_error* error);
weft_status optimizer_create(weft_runtime* runtime, weft_model* model, weft_str name, weft_str options,
                             weft_optimizer** own, weft_error* error);
weft_status scheduler_create(weft_runtime* runtime, weft_optimizer* optimizer, weft_str name,
                             weft_str options, weft_scheduler** own, weft_error* error);
weft_status data_open(weft_runtime* runtime, weft_model* model, weft_str path, weft_str options,
                      weft_data** own, weft_error* error);
weft_status booster_create(weft_runtime* runtime, weft_str options, weft_booster** own, weft_error* error);
weft_status booster_boost(weft_booster* booster, const weft_boost_arguments* arguments, weft_job** own,
                          weft_error* error);

weft_status tokenizer_open(weft_runtime* runtime, weft_str folder, weft_tokenizer** own, weft_error* error);
weft_status tokenizer_encode(const weft_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                             weft_tensor** own, weft_error* error);
weft_status tokenizer_decode(const weft_tokenizer* tokenizer, weft_ids ids, uint32_t skip_special_tokens,
                             weft_tensor** own, weft_error* error);
weft_status job_generate(weft_job* job, const weft_generation_arguments* arguments, weft_error* error);
weft_status trainer_create(weft_booster* booster, weft_job* job, const weft_trainer_arguments* arguments,
                           weft_trainer** own, weft_error* error);
weft_status trainer_fit(weft_trainer* trainer, weft_error* error);
weft_status trainer_describe(weft_trainer* trainer, weft_moment* out, weft_error* error);

// Returns the table of all functions of the C application API.
const weft_application_table& table();

}  // namespace weft::application

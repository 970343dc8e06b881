// The engine's implementation of weft/booster.h, weft/generation.h and weft/tensor.h, whose comments describe
// the functions.
#pragma once

#include "host/application_functions.h"

namespace weft::application {

weft_status tensor_create(uint32_t dtype, const int64_t* shape, uint32_t ndim, const void* data,
                          uint64_t size_bytes, weft_tensor** own, weft_error* error);
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
weft_status booster_boost(weft_booster* booster, weft_model* model, weft_optimizer* optimizer,
                          const weft_criterion* criterion, weft_data* data, weft_scheduler* scheduler,
                          weft_job** own, weft_error* error);

weft_status tokenizer_open(weft_runtime* runtime, weft_str folder, weft_tokenizer** own, weft_error* error);
weft_status tokenizer_encode(const weft_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                             weft_tensor** own, weft_error* error);
weft_status tokenizer_decode(const weft_tokenizer* tokenizer, const int64_t* ids, uint64_t num_ids,
                             uint32_t skip_special_tokens, weft_tensor** own, weft_error* error);
weft_status job_generate(weft_job* job, const weft_field* inputs, uint64_t num_fields,
                         const weft_tensor* const* prompts, uint64_t num_prompts, weft_str options,
                         const weft_generation* generation, weft_error* error);

// Returns the table of all functions of the C application API.
const weft_application_table& table();

}  // namespace weft::application

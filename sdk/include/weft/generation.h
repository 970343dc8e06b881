/* Text, token ids and generating tokens from C, with the objects of weft/booster.h. since 0.1 */
#ifndef WEFT_GENERATION_H
#define WEFT_GENERATION_H

#include "booster.h"

WEFT_BEGIN_C

/* A tokenizer of the caller. Its functions may be called from any thread. */
typedef struct weft_tokenizer weft_tokenizer;

/* Opens the tokenizer whose files are in a model folder. Fails with NOT_FOUND if there are none, and with
 * UNIMPLEMENTED naming a part of them that Weft does not have. [any thread] */
WEFT_EXPORT weft_status weft_tokenizer_open(weft_runtime* runtime, weft_str folder, weft_tokenizer** own,
                                            weft_error* error);
WEFT_EXPORT void weft_tokenizer_destroy(weft_tokenizer* tokenizer);
/* Returns the ids of a UTF-8 text, (tokens) of WEFT_I64. Unless `add_special_tokens` is 0, the special tokens
 * that the tokenizer puts around one text are among them. [any thread] */
WEFT_EXPORT weft_status weft_tokenizer_encode(const weft_tokenizer* tokenizer, weft_str text,
                                              uint32_t add_special_tokens, weft_tensor** own,
                                              weft_error* error);
/* Returns the UTF-8 text of ids, (bytes) of WEFT_U8 without a zero at the end; without special tokens unless
 * `skip_special_tokens` is 0. [any thread] */
WEFT_EXPORT weft_status weft_tokenizer_decode(const weft_tokenizer* tokenizer, const int64_t* ids,
                                              uint64_t num_ids, uint32_t skip_special_tokens,
                                              weft_tensor** own, weft_error* error);

/* A generated sequence. */
typedef struct weft_sequence {
  uint64_t struct_size;
  int64_t prompt, sample; /* their numbers, from 0 */
  const int64_t* ids;     /* the new tokens, a stop id among them; valid during the call */
  uint64_t num_ids;
  uint32_t stopped; /* 1: by a stop id or by the caller; 0: by the number of tokens */
  uint32_t reserved;
} weft_sequence;

/* What the caller does with tokens. */
typedef struct weft_generation {
  uint64_t struct_size;
  void* context;
  /* Called on rank 0 alone for each token that was chosen, and ends the sequence if it returns 0. NULL: no
   * sequence ends early. */
  uint32_t (*token)(void* context, int64_t prompt, int64_t sample, int64_t id);
  /* Called on every rank for each sequence, by prompt and sample, when all are complete. NULL: not called. */
  void (*sequence)(void* context, const weft_sequence* sequence);
} weft_generation;

/* Generates tokens (collective): every rank passes the same arguments and gets the same tokens. Each of the
 * `prompts` is a tensor (tokens) of WEFT_I64. `inputs` are the fields of the encoder of a model that has one,
 * each sample of which is a prompt; `prompts` are then the first tokens of its decoder, and `num_prompts` is
 * 0 for those that the model's files name. Options: "model", the folder whose generation_config.json or
 * config.json gives the defaults ("": Weft's); "max_new_tokens" (100, or what its decoder takes), "greedy"
 * (false), "temperature" (1), "top_k" (0: all), "top_p" (1), "repetition_penalty" (1), "num_samples" (1),
 * "stop_ids" ([]), "seed" (42); weft/generation.hpp documents them. Fails with INVALID_ARGUMENT for options
 * out of range and ids outside of the vocabulary, and with UNIMPLEMENTED where ranks split sequences. */
WEFT_EXPORT weft_status weft_job_generate(weft_job* job, const weft_field* inputs, uint64_t num_fields,
                                          const weft_tensor* const* prompts, uint64_t num_prompts,
                                          weft_str options, const weft_generation* generation,
                                          weft_error* error);

WEFT_END_C

#endif

/* Text, token ids and generating tokens from C, with the objects of weft/booster.h. since 0.2 */
#ifndef WEFT_GENERATION_H
#define WEFT_GENERATION_H

#include "booster.h"

WEFT_BEGIN_C

/* A tokenizer of the caller. Its functions may be called from any thread. */
typedef struct weft_tokenizer weft_tokenizer;

/* Token ids. Borrowed for the call. */
typedef struct weft_ids {
  const int64_t* data;
  uint64_t size;
} weft_ids;

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
WEFT_EXPORT weft_status weft_tokenizer_decode(const weft_tokenizer* tokenizer, weft_ids ids,
                                              uint32_t skip_special_tokens, weft_tensor** own,
                                              weft_error* error);

/* A generated sequence. */
typedef struct weft_sequence {
  uint64_t struct_size;
  int64_t prompt, sample; /* their numbers, from 0 */
  weft_ids ids;           /* the new tokens, a stop id among them */
  uint32_t stopped;       /* 1: by a stop id or by the caller; 0: by the number of tokens */
  uint32_t reserved;
} weft_sequence;

/* A token that was chosen. */
typedef struct weft_chosen_token {
  uint64_t struct_size;
  int64_t prompt, sample; /* their numbers, from 0 */
  int64_t id;
} weft_chosen_token;

/* What weft_job_generate continues, how, and what the caller does with the tokens. Every rank passes the
 * same.
 *
 * Options: "model", the folder whose generation_config.json or config.json gives the defaults ("": Weft's);
 * "max_new_tokens" (100, or what its decoder takes), "greedy" (false), "temperature" (1), "top_k" (0: all),
 * "top_p" (1), "repetition_penalty" (1), "num_samples" (1), "stop_ids" ([]), "seed" (42);
 * weft/generation.hpp documents them. */
typedef struct weft_generation_arguments {
  uint64_t struct_size;
  const weft_ids* prompts; /* the tokens of each prompt */
  uint64_t num_prompts;
  /* The fields of the encoder of a model that has one, each sample of which is a prompt; `prompts` are then
   * the first tokens of its decoder, and `num_prompts` is 0 for those that the model's files name. */
  weft_fields inputs;
  weft_str options;
  void* context; /* of the caller's own, for the two functions */
  /* Called on rank 0 alone for each token that was chosen, and ends the sequence if it returns 0. NULL: no
   * sequence ends early. [control] [no collective] since 0.2 */
  uint32_t (*token)(void* context, const weft_chosen_token* token);
  /* Called on every rank for each sequence, by prompt and sample, when all are complete. NULL: not called.
   * [control] [no collective] since 0.2 */
  void (*sequence)(void* context, const weft_sequence* sequence);
} weft_generation_arguments;

/* Generates tokens (collective): every rank gets the same. Fails with INVALID_ARGUMENT for options out of
 * range and ids outside of the vocabulary, and with UNIMPLEMENTED where ranks split sequences. */
WEFT_EXPORT weft_status weft_job_generate(weft_job* job, const weft_generation_arguments* arguments,
                                          weft_error* error);

WEFT_END_C

#endif

/* A shard policy says which operation each module of a model family runs. Factory
 * "weft.factory.shard_policy/1", tier c.
 *
 * A policy reads a description of the model, never its data, and adds entries to a plan through the builder.
 * The engine then applies the plan. A policy must be deterministic and without side effects, because plans
 * are printed, hashed and compared between ranks. */
#ifndef WEFT_SHARD_POLICY_H
#define WEFT_SHARD_POLICY_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_SHARD_POLICY "weft.factory.shard_policy/1"

/* The description of a model, and the plan that a policy writes. */
typedef struct weft_model_description weft_model_description;
typedef struct weft_plan weft_plan;

/* One module of the model. Paths are relative to the base model. */
typedef struct weft_node {
  uint64_t struct_size;
  weft_str path;       /* "h.0.attn.c_attn" */
  weft_str kind;       /* "Conv1D", "Linear", "Embedding", "LayerNorm", "Dropout", "Attention", ... */
  uint32_t num_params; /* without those of its children */
  uint32_t reserved;
} weft_node;

/* A parameter of a module. */
typedef struct weft_node_param {
  uint64_t struct_size;
  weft_str name; /* "weight" */
  uint32_t ndim;
  uint32_t reserved;
  int64_t shape[WEFT_MAX_DIMS];
} weft_node_param;

/* The description of a model. It is borrowed for the call of build, and so is every string from it. All
 * functions: [control] [no collective] since 0.2 */
typedef struct weft_model_view {
  uint64_t struct_size;
  const weft_model_description* model;
  weft_str architecture; /* the class, as in config.json's "architectures" */

  /* Gets the value of a key of the configuration. Returns 1, or 0 if there is no such key. */
  uint32_t (*config)(const weft_model_description* model, weft_str key, weft_kv* out);
  uint64_t (*num_nodes)(const weft_model_description* model);
  uint32_t (*node)(const weft_model_description* model, uint64_t index, weft_node* out);
  uint32_t (*node_param)(const weft_model_description* model, uint64_t node, uint32_t index,
                         weft_node_param* out);
  /* Returns 1 if this host performs the operation ("weft.linear_column/1"). */
  uint32_t (*has_operation)(const weft_model_description* model, weft_str operation);
} weft_model_view;

/* The sizes of the axes and the facts of the job that concern a policy. The host knows what each mode of
 * sequence parallelism does; a policy reads facts and never the name of a mode. */
typedef struct weft_parallel {
  uint64_t struct_size;
  uint32_t tensor_size;   /* ranks that split the same layers */
  uint32_t sequence_size; /* ranks that split the positions of the same samples everywhere */
  uint32_t pipeline_size; /* pipeline stages */
  uint32_t data_size;     /* ranks, or groups that share sequences, that train on different samples */
  uint32_t head_ranks;    /* ranks that share the attention heads: their number must be a multiple of it */
  /* 1: the tensor-parallel ranks split the positions between regions, so that norms and residual dropouts see
   * some of them only. */
  uint32_t splits_over_tensor_axis;
  uint32_t splits_over_sequence_axis; /* 1: the ranks of sequence_size split them everywhere */
  uint32_t parallel_output;           /* 1: a language head may leave each rank its part of the logits */
  weft_str sequence_mode; /* for messages alone: "split_gather"; empty without sequence parallelism */
} weft_parallel;

/* Adds entries to a plan. A pattern is a path in which `*` matches one component or a part of it and `[12]`
 * matches one character; commas separate several patterns. Strings are copied. A wrong entry (a malformed
 * pattern, one that matches nothing, an unknown operation) does not fail the call: the host reports all wrong
 * entries together after build. If a call fails, build must return its status. [control] [no collective]
 * since 0.2, all of them */
typedef struct weft_plan_builder {
  uint64_t struct_size;
  weft_plan* plan;

  /* Makes every matching module run `operation`. */
  weft_status (*replace)(weft_plan* plan, weft_str pattern, weft_str operation, const weft_kv* attributes,
                         uint64_t num_attributes, weft_error* error);
  /* Divides an integer attribute of every matching module, such as its number of heads, by `by`. */
  weft_status (*divide)(weft_plan* plan, weft_str pattern, weft_str attribute, int64_t by, weft_error* error);
  /* Asserts that two parameters are tied, which the model must have declared. */
  weft_status (*tie)(weft_plan* plan, weft_str first, weft_str second, weft_error* error);
  /* Refuses the model unless the integer `key` of its configuration is a multiple of `divisor`. The host
   * writes the message, with the nearest valid sizes. */
  weft_status (*require_divides)(weft_plan* plan, weft_str key, int64_t divisor, weft_error* error);
  /* Refuses the model or the sizes of the axes. `reason` says what to do. */
  weft_status (*reject)(weft_plan* plan, weft_str reason, weft_error* error);
} weft_plan_builder;

/* A policy: the function that writes the plan. */
typedef struct weft_shard_policy weft_shard_policy;
struct weft_shard_policy {
  uint64_t struct_size;
  void* context; /* of the library's own */
  /* Writes the plan of a model. `name` is that under which the policy was found: of the family, as in
   * config.json's "model_type", or of a custom policy. [control] [no collective] since 0.2 */
  weft_status (*build)(const weft_shard_policy* policy, weft_str name, const weft_model_view* model,
                       const weft_parallel* parallel, const weft_plan_builder* plan, weft_error* error);
};

/* What get_factory(WEFT_FACTORY_SHARD_POLICY) returns. */
typedef struct weft_shard_policy_factory weft_shard_policy_factory;
struct weft_shard_policy_factory {
  uint64_t struct_size;
  /* [any thread] [no collective] since 0.2 */
  const weft_shard_policy* (*find)(const weft_shard_policy_factory* factory, weft_str name);
};

WEFT_END_C

#endif

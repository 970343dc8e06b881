/* A shard policy: which operation each module of a model family runs. Factory "weft.factory.shard_policy/1",
 * tier c.
 *
 * A policy reads a description of the model, never its data, and adds entries to a plan through the builder;
 * the core performs the plan. It is pure and deterministic, so that a plan can be printed, hashed and
 * compared between ranks. */
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
  uint32_t num_params; /* of its own, not of its children */
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

/* Describes a model. It is borrowed for the call of build, and so is every string from it.
 * [control] [no collective], all functions */
typedef struct weft_model_view {
  uint64_t struct_size;
  const weft_model_description* model;
  weft_str architecture; /* the class, as in config.json's "architectures" */

  /* Gets a key of the configuration. Returns 1, or 0 if there is none. */
  uint32_t (*config)(const weft_model_description* model, weft_str key, weft_kv* out);
  uint64_t (*num_nodes)(const weft_model_description* model);
  uint32_t (*node)(const weft_model_description* model, uint64_t index, weft_node* out);
  uint32_t (*node_param)(const weft_model_description* model, uint64_t node, uint32_t index,
                         weft_node_param* out);
  /* Returns 1 if this host performs the operation ("weft.linear_column/1"). */
  uint32_t (*has_operation)(const weft_model_description* model, weft_str operation);
} weft_model_view;

/* How the residual stream lies between tensor-parallel regions. */
#define WEFT_SEQUENCE_WHOLE 0 /* every rank has all positions */
/* Each rank of the tensor axis has its positions; they are gathered for a region and scattered after it. */
#define WEFT_SEQUENCE_SPLIT_GATHER 1
#define WEFT_SEQUENCE_RING 2 /* the same, passed from rank to rank while each computes with what it has */
/* Each rank of the sequence axis has its positions, in regions too; attention exchanges positions for heads.
 */
#define WEFT_SEQUENCE_ALL_TO_ALL 3
#define WEFT_SEQUENCE_RING_ATTENTION 4 /* the same, but attention passes keys and values round */

/* The sizes of the axes and the flags of the job, as a policy sees them. */
typedef struct weft_parallel {
  uint64_t struct_size;
  uint32_t tensor_size;
  uint32_t sequence_size;
  uint32_t pipeline_size;
  uint32_t data_size;
  uint32_t fused_normalization;
  uint32_t flash_attention;
  uint32_t jit_fused;
  uint32_t parallel_output;
  uint32_t sequence_mode; /* WEFT_SEQUENCE_* */
  uint32_t reserved;
} weft_parallel;

/* Adds entries to a plan. A pattern is a path in which `*` stands for one component or a part of it and
 * `[12]` for one character; commas separate several patterns. Strings are copied. A wrong entry (a malformed
 * pattern, one that matches nothing, an unknown operation) does not fail the call: the host reports all of
 * them together after build. If a call fails, build returns its status. [control] [no collective] since 0.1
 */
typedef struct weft_plan_builder {
  uint64_t struct_size;
  weft_plan* plan;

  /* Makes every module that matches run `operation`. */
  weft_status (*replace)(weft_plan* plan, weft_str pattern, weft_str operation, const weft_kv* attributes,
                         uint64_t num_attributes, weft_error* error);
  /* Divides an integer attribute of every module that matches, such as its number of heads, by `by`. */
  weft_status (*divide)(weft_plan* plan, weft_str pattern, weft_str attribute, int64_t by, weft_error* error);
  /* Asserts that two parameters are one, which the model must declare. */
  weft_status (*tie)(weft_plan* plan, weft_str first, weft_str second, weft_error* error);
  /* Refuses the model unless the integer `key` of its configuration is a multiple of `divisor`; the host
   * writes the message, with the nearest legal sizes. */
  weft_status (*require_divides)(weft_plan* plan, weft_str key, int64_t divisor, weft_error* error);
  /* Refuses the model or the sizes, for a reason that says what to do. */
  weft_status (*reject)(weft_plan* plan, weft_str reason, weft_error* error);
} weft_plan_builder;

/* A policy: its name and the function that writes the plan. */
typedef struct weft_shard_policy {
  uint64_t struct_size;
  weft_str name; /* of the family, as in config.json's "model_type" */
  weft_status (*build)(const weft_model_view* model, const weft_parallel* parallel,
                       const weft_plan_builder* plan, weft_error* error);
} weft_shard_policy;

/* What get_factory(WEFT_FACTORY_SHARD_POLICY) returns. */
typedef struct weft_shard_policy_factory {
  uint64_t struct_size;
  const weft_shard_policy* (*find)(weft_str name);
} weft_shard_policy_factory;

WEFT_END_C

#endif

/* Macros for shard policies in C, which make a policy read like a table. A file that uses them defines one
 * policy and needs no C library. Here with the names that WEFT_SHORT_NAMES gives, which a
 * file defines before it includes this header:
 *
 *   static weft_status build(WEFT_POLICY_ARGUMENTS) {
 *     REQUIRE_HEADS(heads, "n_head, num_attention_heads", 12);
 *     ON("h.*.attn.c_attn", "weft.linear_column/1", INT("heads", heads));
 *     return WEFT_OK;
 *   }
 *   WEFT_SHARD_POLICY("my_family", build)
 *
 * If the call of a statement fails, the statement returns its status from the function. A wrong entry (a
 * pattern that matches nothing, an unknown attribute) does not fail the call: the host reports all wrong
 * entries together after build. */
#ifndef WEFT_POLICY_H
#define WEFT_POLICY_H

#include "define_plugin.h"
#include "shard_policy.h"

/* The parameters of a build function: policy, policy_name, model, parallel, plan and error. */
#define WEFT_POLICY_UNUSED __attribute__((unused))
#define WEFT_POLICY_ARGUMENTS                                                                            \
  WEFT_POLICY_UNUSED const weft_shard_policy *policy, WEFT_POLICY_UNUSED weft_str policy_name,           \
      WEFT_POLICY_UNUSED const weft_model_view *model, WEFT_POLICY_UNUSED const weft_parallel *parallel, \
      const weft_plan_builder *plan, weft_error *error

/* Make an attribute of an entry. `key` and `text` are literals. */
#define WEFT_INT(key, value) weft_policy_integer(WEFT_STR(key), WEFT_KIND_INT, (int64_t)(value))
#define WEFT_REAL(key, value) weft_policy_real(WEFT_STR(key), (double)(value))
#define WEFT_FLAG(key, value) weft_policy_integer(WEFT_STR(key), WEFT_KIND_BOOL, (value) != 0)
#define WEFT_TEXT(key, text) weft_policy_text(WEFT_STR(key), WEFT_STR(text))

/* WEFT_ON(pattern, operation, attributes...): makes every matching module run the operation. */
#define WEFT_ON(pattern, ...) \
  WEFT_POLICY_ON(pattern, __VA_ARGS__, weft_policy_integer(WEFT_STR(""), WEFT_KIND_NONE, 0))
#define WEFT_POLICY_ON(pattern, operation, ...)                                                  \
  do {                                                                                           \
    const weft_kv weft_policy_attributes[] = {__VA_ARGS__};                                      \
    WEFT_POLICY_TRY(plan->replace(plan->plan, WEFT_STR(pattern), WEFT_STR(operation),            \
                                  weft_policy_attributes,                                        \
                                  sizeof(weft_policy_attributes) / sizeof(weft_kv) - 1, error)); \
  } while (0)

/* Divides an integer attribute of every matching module by `by`. */
#define WEFT_DIVIDE(pattern, attribute, by) \
  WEFT_POLICY_TRY(plan->divide(plan->plan, WEFT_STR(pattern), WEFT_STR(attribute), (int64_t)(by), error))
/* Asserts that two parameters are tied, which the model must have declared. */
#define WEFT_TIE(first, second) \
  WEFT_POLICY_TRY(plan->tie(plan->plan, WEFT_STR(first), WEFT_STR(second), error))
/* Refuses the model unless the integer `key` of its configuration is a multiple of `divisor`. */
#define WEFT_REQUIRE_DIVIDES(key, divisor) \
  WEFT_POLICY_TRY(plan->require_divides(plan->plan, WEFT_STR(key), (int64_t)(divisor), error))
/* WEFT_REQUIRE_HEADS(heads, keys, otherwise): declares the integer `heads`, the number of attention heads,
 * and refuses the model unless WEFT_HEAD_RANKS divides it. `keys` are the names that it may have in the
 * configuration
 * ("n_head, num_attention_heads"); `otherwise`, a literal, is the model's default. */
#define WEFT_REQUIRE_HEADS(heads, keys, otherwise)                                           \
  const int64_t heads = WEFT_CONFIG_INTEGER(keys, otherwise);                                \
  WEFT_POLICY_TRY(weft_policy_require_heads(                                                 \
      model, plan, WEFT_STR(keys), heads, WEFT_HEAD_RANKS,                                   \
      WEFT_STR("the configuration gives no number of attention heads (" keys                 \
               "), and the default, " #otherwise                                             \
               ", is not a multiple of the ranks that share them: those of the tensor axis " \
               "and, under all_to_all, of the sequence axis too"),                           \
      error))
/* Refuses the model or the sizes of the axes if the condition holds. `reason` says what to do. */
#define WEFT_REJECT_IF(condition, reason)                                              \
  do {                                                                                 \
    if (condition) WEFT_POLICY_TRY(plan->reject(plan->plan, WEFT_STR(reason), error)); \
  } while (0)

/* WEFT_SPLIT_OVER_TENSOR_AXIS: the tensor-parallel ranks split the sequence dimension between regions, so
 * that norms and residual dropouts see some positions only. WEFT_SPLIT_OVER_SEQUENCE_AXIS: the ranks of the
 * sequence axis split it everywhere. WEFT_HEAD_RANKS: how many ranks share the attention heads. */
#define WEFT_SPLIT_OVER_TENSOR_AXIS (parallel->splits_over_tensor_axis != 0)
#define WEFT_SPLIT_OVER_SEQUENCE_AXIS (parallel->splits_over_sequence_axis != 0)
#define WEFT_HEAD_RANKS ((int64_t)parallel->head_ranks)

/* Conditions. WEFT_HAS_MODULE: the model has a module at exactly this path, not a pattern. WEFT_CONFIG_FLAG
 * and WEFT_CONFIG_INTEGER: the value of `key` in the configuration, or `otherwise` if it is absent.
 * WEFT_CONFIG_INTEGER takes several names of one value, with commas between them, and reads the first that is
 * there. WEFT_HAS_OPERATION: this host has the operation. */
#define WEFT_HAS_MODULE(path) weft_policy_has_module(model, WEFT_STR(path))
#define WEFT_CONFIG_FLAG(key, otherwise) weft_policy_config_flag(model, WEFT_STR(key), otherwise)
#define WEFT_CONFIG_INTEGER(keys, otherwise) weft_policy_config_integer(model, WEFT_STR(keys), otherwise)
#define WEFT_HAS_OPERATION(operation) (model->has_operation(model->model, WEFT_STR(operation)))

/* Returns the status of the call from the function if it failed. */
#define WEFT_POLICY_TRY(call)                                     \
  do {                                                            \
    const weft_status weft_policy_status = (call);                \
    if (weft_policy_status != WEFT_OK) return weft_policy_status; \
  } while (0)

/* Sets fields one by one, because compilers may call memcpy or memset of the C library for an initialiser. */
static inline weft_kv weft_policy_integer(weft_str key, uint32_t kind, int64_t value) {
  weft_kv kv;
  kv.key = key;
  kv.kind = kind;
  kv.flags = 0;
  kv.integer = value;
  kv.real = 0;
  kv.text = WEFT_STR("");
  return kv;
}

static inline weft_kv weft_policy_real(weft_str key, double value) {
  weft_kv kv;
  kv.key = key;
  kv.kind = WEFT_KIND_FLOAT;
  kv.flags = 0;
  kv.integer = 0;
  kv.real = value;
  kv.text = WEFT_STR("");
  return kv;
}

static inline weft_kv weft_policy_text(weft_str key, weft_str text) {
  weft_kv kv;
  kv.key = key;
  kv.kind = WEFT_KIND_TEXT;
  kv.flags = 0;
  kv.integer = 0;
  kv.real = 0;
  kv.text = text;
  return kv;
}

static inline int weft_policy_equal(weft_str a, weft_str b) {
  uint64_t i;
  if (a.size != b.size) return 0;
  for (i = 0; i < a.size; ++i)
    if (a.data[i] != b.data[i]) return 0;
  return 1;
}

static inline int weft_policy_has_module(const weft_model_view* model, weft_str path) {
  weft_node node;
  uint64_t i;
  node.struct_size = sizeof(node);
  for (i = 0; model->node(model->model, i, &node); ++i)
    if (weft_policy_equal(node.path, path)) return 1;
  return 0;
}

/* Returns the first of `keys` that the configuration has, or an empty string. */
static inline weft_str weft_policy_find_key(const weft_model_view* model, weft_str keys) {
  weft_kv kv;
  weft_str key = keys;
  uint64_t begin = 0, end;
  while (begin < keys.size) {
    for (end = begin; end < keys.size && keys.data[end] != ',';) ++end;
    key.data = keys.data + begin;
    key.size = end - begin;
    if (model->config(model->model, key, &kv)) return key;
    for (begin = end + 1; begin < keys.size && keys.data[begin] == ' ';) ++begin;
  }
  key.size = 0;
  return key;
}

static inline int64_t weft_policy_config_integer(const weft_model_view* model, weft_str keys,
                                                 int64_t otherwise) {
  weft_kv kv;
  const weft_str key = weft_policy_find_key(model, keys);
  return model->config(model->model, key, &kv) && kv.kind == WEFT_KIND_INT ? kv.integer : otherwise;
}

static inline weft_status weft_policy_require_heads(const weft_model_view* model,
                                                    const weft_plan_builder* plan, weft_str keys,
                                                    int64_t heads, int64_t ranks, weft_str reason,
                                                    weft_error* error) {
  const weft_str key = weft_policy_find_key(model, keys);
  if (key.size > 0) return plan->require_divides(plan->plan, key, ranks, error);
  return heads % ranks == 0 ? WEFT_OK : plan->reject(plan->plan, reason, error);
}

static inline int weft_policy_config_flag(const weft_model_view* model, weft_str key, int otherwise) {
  weft_kv kv;
  return model->config(model->model, key, &kv) && kv.kind == WEFT_KIND_BOOL ? kv.integer != 0 : otherwise;
}

/* Defines a plugin with one policy, whose build function is given. Its id and version come from
 * weft_add_plugin(). */
#define WEFT_SHARD_POLICY(family, build_function)                                                       \
  static const weft_shard_policy weft_policy_table = {sizeof(weft_shard_policy), NULL, build_function}; \
  static const weft_shard_policy* weft_policy_find(const weft_shard_policy_factory* factory,            \
                                                   weft_str name) {                                     \
    (void)factory;                                                                                      \
    return weft_policy_equal(name, WEFT_STR(family)) ? &weft_policy_table : NULL;                       \
  }                                                                                                     \
  static const weft_shard_policy_factory weft_policy_factory = {sizeof(weft_shard_policy_factory),      \
                                                                weft_policy_find};                      \
  static const void* weft_policy_get_factory(const weft_plugin* plugin, weft_str id) {                  \
    (void)plugin;                                                                                       \
    return weft_policy_equal(id, WEFT_STR(WEFT_FACTORY_SHARD_POLICY)) ? &weft_policy_factory : NULL;    \
  }                                                                                                     \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", weft_policy_get_factory)

/* The macros of a table without their prefix, for files that ask for it before they include this header. */
#ifdef WEFT_SHORT_NAMES
#define INT WEFT_INT
#define REAL WEFT_REAL
#define FLAG WEFT_FLAG
#define TEXT WEFT_TEXT
#define ON WEFT_ON
#define DIVIDE WEFT_DIVIDE
#define TIE WEFT_TIE
#define REQUIRE_DIVIDES WEFT_REQUIRE_DIVIDES
#define REQUIRE_HEADS WEFT_REQUIRE_HEADS
#define REJECT_IF WEFT_REJECT_IF
#define SPLIT_OVER_TENSOR_AXIS WEFT_SPLIT_OVER_TENSOR_AXIS
#define SPLIT_OVER_SEQUENCE_AXIS WEFT_SPLIT_OVER_SEQUENCE_AXIS
#define HEAD_RANKS WEFT_HEAD_RANKS
#define HAS_MODULE WEFT_HAS_MODULE
#define CONFIG_FLAG WEFT_CONFIG_FLAG
#define CONFIG_INTEGER WEFT_CONFIG_INTEGER
#define HAS_OPERATION WEFT_HAS_OPERATION
#endif

#endif

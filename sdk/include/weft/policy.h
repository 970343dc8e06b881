/* Macros with which a shard policy reads like a table. For C files that define one policy; they need no C
 * library.
 *
 *   static weft_status build(WEFT_POLICY_ARGUMENTS) {
 *     REQUIRE_DIVIDES("n_head", parallel->tensor_size);
 *     ON("h.*.attn.c_attn", "weft.linear_column/1", TEXT("layout", "in_out"), INT("fused", 3));
 *     return WEFT_OK;
 *   }
 *   WEFT_SHARD_POLICY("my_family", build)
 *
 * A statement whose call fails returns its status from the function. A wrong entry (a pattern that matches
 * nothing, an unknown attribute) is no failure of the call: the host reports all of them together after
 * build. */
#ifndef WEFT_POLICY_H
#define WEFT_POLICY_H

#include "define_plugin.h"
#include "shard_policy.h"

/* The parameters of a build function: model, parallel, plan and error. */
#define WEFT_POLICY_ARGUMENTS                                                                 \
  const weft_model_view *model, const weft_parallel *parallel, const weft_plan_builder *plan, \
      weft_error *error

/* Make an attribute of an entry. `key` and `text` are literals. */
#define INT(key, value) weft_policy_integer(WEFT_STR(key), WEFT_KIND_INT, (int64_t)(value))
#define FLAG(key, value) weft_policy_integer(WEFT_STR(key), WEFT_KIND_BOOL, (value) != 0)
#define TEXT(key, text) weft_policy_text(WEFT_STR(key), WEFT_STR(text))

/* ON(pattern, operation, attributes...): modules that match the pattern run the operation. */
#define ON(pattern, ...) \
  WEFT_POLICY_ON(pattern, __VA_ARGS__, weft_policy_integer(WEFT_STR(""), WEFT_KIND_NONE, 0))
#define WEFT_POLICY_ON(pattern, operation, ...)                                                  \
  do {                                                                                           \
    const weft_kv weft_policy_attributes[] = {__VA_ARGS__};                                      \
    WEFT_POLICY_TRY(plan->replace(plan->plan, WEFT_STR(pattern), WEFT_STR(operation),            \
                                  weft_policy_attributes,                                        \
                                  sizeof(weft_policy_attributes) / sizeof(weft_kv) - 1, error)); \
  } while (0)

/* Divides an integer attribute of the modules that match by `by`. */
#define DIVIDE(pattern, attribute, by) \
  WEFT_POLICY_TRY(plan->divide(plan->plan, WEFT_STR(pattern), WEFT_STR(attribute), (int64_t)(by), error))
/* Asserts that two parameters are one, which the model must declare. */
#define TIE(first, second) WEFT_POLICY_TRY(plan->tie(plan->plan, WEFT_STR(first), WEFT_STR(second), error))
/* Refuses the model unless the integer `key` of its configuration is a multiple of `divisor`. */
#define REQUIRE_DIVIDES(key, divisor) \
  WEFT_POLICY_TRY(plan->require_divides(plan->plan, WEFT_STR(key), (int64_t)(divisor), error))
/* Refuses the model or the sizes if the condition holds, for a reason that says what to do. */
#define REJECT_IF(condition, reason)                                                   \
  do {                                                                                 \
    if (condition) WEFT_POLICY_TRY(plan->reject(plan->plan, WEFT_STR(reason), error)); \
  } while (0)

/* Whether sequences are split between tensor-parallel regions over the ranks of the tensor axis, so that
 * norms and residual dropouts see a part of them; whether they are split over ranks of their own; and among
 * how many ranks the heads of attention are divided. */
#define SPLIT_OVER_TENSOR_AXIS \
  (parallel->sequence_mode == WEFT_SEQUENCE_SPLIT_GATHER || parallel->sequence_mode == WEFT_SEQUENCE_RING)
#define SPLIT_OVER_SEQUENCE_AXIS (parallel->sequence_size > 1)
#define HEAD_RANKS                  \
  ((int64_t)parallel->tensor_size * \
   (parallel->sequence_mode == WEFT_SEQUENCE_ALL_TO_ALL ? (int64_t)parallel->sequence_size : 1))

/* Conditions: whether the model has a module at this path, which is no pattern; the flag or integer `key` of
 * the configuration, `otherwise` if it is absent; whether the host performs the operation. */
#define HAS_MODULE(path) weft_policy_has_module(model, WEFT_STR(path))
#define CONFIG_FLAG(key, otherwise) weft_policy_config_flag(model, WEFT_STR(key), otherwise)
#define CONFIG_INTEGER(key, otherwise) weft_policy_config_integer(model, WEFT_STR(key), otherwise)
#define HAS_OPERATION(operation) (model->has_operation(model->model, WEFT_STR(operation)))

/* Returns the status of a call that fails. */
#define WEFT_POLICY_TRY(call)                                     \
  do {                                                            \
    const weft_status weft_policy_status = (call);                \
    if (weft_policy_status != WEFT_OK) return weft_policy_status; \
  } while (0)

/* Fields are set one by one, because compilers may call memcpy or memset of a C library for an initialiser.
 */
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

static inline int64_t weft_policy_config_integer(const weft_model_view* model, weft_str key,
                                                 int64_t otherwise) {
  weft_kv kv;
  return model->config(model->model, key, &kv) && kv.kind == WEFT_KIND_INT ? kv.integer : otherwise;
}

static inline int weft_policy_config_flag(const weft_model_view* model, weft_str key, int otherwise) {
  weft_kv kv;
  return model->config(model->model, key, &kv) && kv.kind == WEFT_KIND_BOOL ? kv.integer != 0 : otherwise;
}

/* Defines the plugin around one build function. Its id and version come from weft_add_plugin(). */
#define WEFT_SHARD_POLICY(family, build_function)                                                    \
  static const weft_shard_policy weft_policy_table = {                                               \
      sizeof(weft_shard_policy), {(family), sizeof(family) - 1}, build_function};                    \
  static const weft_shard_policy* weft_policy_find(weft_str name) {                                  \
    return weft_policy_equal(name, weft_policy_table.name) ? &weft_policy_table : NULL;              \
  }                                                                                                  \
  static const weft_shard_policy_factory weft_policy_factory = {sizeof(weft_shard_policy_factory),   \
                                                                weft_policy_find};                   \
  static const void* weft_policy_get_factory(weft_str id) {                                          \
    return weft_policy_equal(id, WEFT_STR(WEFT_FACTORY_SHARD_POLICY)) ? &weft_policy_factory : NULL; \
  }                                                                                                  \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", weft_policy_get_factory)

#endif

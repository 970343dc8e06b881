/* Macros with which a policy reads like a table. For C files that define one policy; needs no C library.
 *
 *   static weft_status build(WEFT_POLICY_ARGUMENTS) {
 *     REQUIRE_DIVIDES("n_head", parallel->tensor_size);
 *     ON("h.*.attn.c_attn", "weft.linear_column/1", TEXT("layout", "in_out"), INT("fused", 3));
 *     return WEFT_OK;
 *   }
 *   WEFT_SHARD_POLICY("gpt2", build)
 *
 * Each macro returns from the function with the status of a call that fails. */
#ifndef WEFT_POLICY_H
#define WEFT_POLICY_H

#include "define_plugin.h"
#include "shard_policy.h"

#define WEFT_POLICY_ARGUMENTS                                                                                  \
  const weft_model_view *model, const weft_parallel *parallel, const weft_plan_builder *plan, weft_error *error

#define WEFT_POLICY_TRY(call)                     \
  do {                                            \
    weft_status weft_policy_status = (call);      \
    if (weft_policy_status != WEFT_OK) return weft_policy_status; \
  } while (0)

#define INT(key, value) {WEFT_POLICY_STR(key), WEFT_KIND_INT, 0, (value), 0.0, {0, 0}}
#define FLAG(key, value) {WEFT_POLICY_STR(key), WEFT_KIND_BOOL, 0, (value) != 0, 0.0, {0, 0}}
#define TEXT(key, value) {WEFT_POLICY_STR(key), WEFT_KIND_TEXT, 0, 0, 0.0, WEFT_POLICY_STR(value)}
#define WEFT_POLICY_STR(literal) {(literal), sizeof(literal) - 1}

/* ON(pattern, operation, attributes...): the modules that match run the operation. */
#define ON(pattern, ...) WEFT_POLICY_ON(pattern, __VA_ARGS__, {{0, 0}, 0, 0, 0, 0.0, {0, 0}})
#define WEFT_POLICY_ON(pattern, operation, ...)                                                               \
  do {                                                                                                        \
    const weft_kv weft_policy_attributes[] = {__VA_ARGS__};                                                   \
    WEFT_POLICY_TRY(plan->replace(plan->plan, WEFT_STR(pattern), WEFT_STR(operation), weft_policy_attributes, \
                                  sizeof(weft_policy_attributes) / sizeof(weft_kv) - 1, error));              \
  } while (0)
#define DIVIDE(pattern, attribute, by) \
  WEFT_POLICY_TRY(plan->divide(plan->plan, WEFT_STR(pattern), WEFT_STR(attribute), (int64_t)(by), error))
#define TIE(first, second) WEFT_POLICY_TRY(plan->tie(plan->plan, WEFT_STR(first), WEFT_STR(second), error))
#define REQUIRE_DIVIDES(key, divisor) \
  WEFT_POLICY_TRY(plan->require_divides(plan->plan, WEFT_STR(key), (int64_t)(divisor), error))

/* The whole plugin around one build function. The id and version of the plugin come from weft_add_plugin(). */
#define WEFT_SHARD_POLICY(family, build_function)                                                             \
  static const weft_shard_policy weft_policy_table = {sizeof(weft_shard_policy), WEFT_POLICY_STR(family),     \
                                                      build_function};                                        \
  static int weft_policy_equal(weft_str a, const char* b, uint64_t size) {                                    \
    uint64_t i;                                                                                               \
    if (a.size != size) return 0;                                                                             \
    for (i = 0; i < size; ++i)                                                                                \
      if (a.data[i] != b[i]) return 0;                                                                        \
    return 1;                                                                                                 \
  }                                                                                                           \
  static const weft_shard_policy* weft_policy_find(weft_str name) {                                           \
    return weft_policy_equal(name, family, sizeof(family) - 1) ? &weft_policy_table : NULL;                   \
  }                                                                                                           \
  static const weft_shard_policy_factory weft_policy_factory = {sizeof(weft_shard_policy_factory),            \
                                                                weft_policy_find};                            \
  static const void* weft_policy_get_factory(weft_str id) {                                                   \
    return weft_policy_equal(id, WEFT_FACTORY_SHARD_POLICY, sizeof(WEFT_FACTORY_SHARD_POLICY) - 1)            \
               ? &weft_policy_factory                                                                         \
               : NULL;                                                                                        \
  }                                                                                                           \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", weft_policy_get_factory)

#endif

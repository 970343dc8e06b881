/* A plugin as an author writes it. */
#include <weft/define_plugin.h>
#include <weft/shard_policy.h>

static weft_status build(const weft_shard_policy* policy, weft_str name, const weft_model_view* model,
                         const weft_parallel* parallel, const weft_plan_builder* plan, weft_error* error) {
  return plan->replace(plan->plan, WEFT_STR("wte"), WEFT_STR("weft.embedding_vocab/1"), NULL, 0, error);
}

static const weft_shard_policy policy = {sizeof(weft_shard_policy), NULL, build};

static const weft_shard_policy* find(const weft_shard_policy_factory* factory, weft_str name) {
  return name.size >= 12 ? &policy : NULL;
}

static const weft_shard_policy_factory factory = {sizeof(weft_shard_policy_factory), find};

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  const char wanted[] = WEFT_FACTORY_SHARD_POLICY;
  uint64_t i;
  if (id.size != sizeof(wanted) - 1) return NULL;
  for (i = 0; i < id.size; ++i)
    if (id.data[i] != wanted[i]) return NULL;
  return &factory;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

/* A strategy of tier torch, as far as the loader looks. */
#include <weft/define_plugin.h>
#include <weft/note.h>
#include <weft/strategy.h>

WEFT_PLUGIN_NOTE("id=delta\nversion=1.0.0\ntier=torch\nabi=0.2-2\ntorch=torch=2.11.0\n");
#define WEFT_PLUGIN_ID "delta"
#define WEFT_PLUGIN_VERSION "1.0.0"

static weft_status create(const weft_strategy_api* api, const weft_strategy_arguments* arguments,
                          weft_strategy** own, weft_error* error) {
  return WEFT_UNIMPLEMENTED;
}
static void destroy(weft_strategy* strategy) {}
static weft_status configure(weft_strategy* strategy, weft_training* training, weft_error* error) {
  return WEFT_UNIMPLEMENTED;
}
static weft_status publish(weft_strategy* strategy, uint32_t reason, weft_shard_sink* sink,
                           weft_error* error) {
  return WEFT_UNIMPLEMENTED;
}
static weft_status zero_gradients(weft_strategy* strategy, weft_error* error) {
  return WEFT_UNIMPLEMENTED;
}

static const weft_strategy_api table = {
    .struct_size = sizeof(weft_strategy_api),
    .create = create,
    .destroy = destroy,
    .configure = configure,
    .publish = publish,
    .zero_gradients = zero_gradients,
};

static const weft_strategy_api* find(const weft_strategy_factory* factory, weft_str name) {
  return &table;
}

static const weft_strategy_factory factory = {sizeof(weft_strategy_factory), find};

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  return id.size == sizeof("weft.factory.strategy/1") - 1 ? &factory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_TORCH, "torch=2.11.0", get_factory)

/* A strategy of tier torch, as far as the loader looks. */
#include <weft/define_plugin.h>
#include <weft/note.h>

WEFT_PLUGIN_NOTE("id=delta\nversion=1.0.0\ntier=torch\nabi=0.1-1\ntorch=torch=2.11.0\n");
#define WEFT_PLUGIN_ID "delta"
#define WEFT_PLUGIN_VERSION "1.0.0"

static const uint64_t table[2] = {64, 0};

static const void* find(weft_str name) {
  return table;
}

static const struct {
  uint64_t struct_size;
  const void* (*find)(weft_str name);
} factory = {16, find};

static const void* get_factory(weft_str id) {
  return id.size == sizeof("weft.factory.strategy/1") - 1 ? &factory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_TORCH, "torch=2.11.0", get_factory)

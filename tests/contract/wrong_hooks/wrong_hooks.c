/* Hooks that count steps, each but the first with one mistake. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/define_plugin.h>
#include <weft/hook.h>

static const weft_host* weft_plugin_host;

enum {
  kRight,
  kAsksTooLate,
  kFails,
  kForgets,
  kShares,
  kTakesAnyState,
  kAsksForNothing,
  kMisnamed,
  kHasHalf,
  kNone
};

typedef struct counter {
  weft_hook hook;
  int kind;
  long long steps;
} counter;

static const weft_str names[] = {{"right", 5},
                                 {"asks_too_late", 13},
                                 {"fails", 5},
                                 {"forgets", 7},
                                 {"shares", 6},
                                 {"takes_any_state", 15},
                                 {"asks_for_nothing", 16},
                                 {"misnamed", 8},
                                 {"has_half", 8},
                                 {"makes_none", 10}};
static long long shared;

static weft_status at(void* context, const weft_moment* moment, uint32_t* requests, weft_error* error) {
  counter* own = context;
  ++own->steps;
  ++shared;
  if (own->kind == kAsksTooLate) *requests = WEFT_ASK_SKIP;
  if (own->kind == kAsksForNothing) *requests = 1u << 9;
  if (own->kind == kRight && own->steps == 4 && moment->rank == moment->world_size - 1)
    *requests = WEFT_ASK_STOP | WEFT_ASK_SAVE | WEFT_ASK_EVALUATE;
  if (own->kind != kFails) return WEFT_OK;
  weft_plugin_host->error_set(error, WEFT_INTERNAL, WEFT_STR("by itself"));
  return WEFT_INTERNAL;
}
static weft_status state(void* context, const weft_text_sink* text, weft_error* error) {
  const counter* own = context;
  char written[32];
  const int size = snprintf(written, sizeof written, "%lld", own->kind == kShares ? shared : own->steps);
  text->append(text->context, (weft_str){written, (uint64_t)size});
  return WEFT_OK;
}
static weft_status restore(void* context, weft_str saved, weft_error* error) {
  counter* own = context;
  char text[32] = "";
  if (saved.size < sizeof text) memcpy(text, saved.data, saved.size);
  if (own->kind != kForgets) own->steps = atoll(text);
  if (own->kind == kTakesAnyState || (text[0] >= '0' && text[0] <= '9')) return WEFT_OK;
  weft_plugin_host->error_set(error, WEFT_INVALID_ARGUMENT, WEFT_STR("no number"));
  return WEFT_INVALID_ARGUMENT;
}

static weft_status create(const weft_hook_factory* factory, weft_str name, const weft_kv* options,
                          uint64_t num_options, const weft_hook** own, weft_error* error) {
  counter* made = calloc(1, sizeof *made);
  for (int i = 0; i <= kNone; ++i)
    if (names[i].size == name.size && memcmp(names[i].data, name.data, name.size) == 0) made->kind = i;
  made->hook = (weft_hook){.struct_size = sizeof(weft_hook),
                           .context = made,
                           .name = made->kind == kMisnamed ? WEFT_STR("another") : names[made->kind],
                           .moments = WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_STEP),
                           .at = at,
                           .state = state,
                           .restore = made->kind == kHasHalf ? NULL : restore};
  if (made->kind != kNone) *own = &made->hook;
  return WEFT_OK;
}
static void destroy(const weft_hook_factory* factory, const weft_hook* hook) {
  if (hook != NULL) free(hook->context);
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  static const weft_hook_factory factory = {sizeof(weft_hook_factory), create, destroy};
  return id.size == sizeof(WEFT_FACTORY_HOOK) - 1 && memcmp(id.data, WEFT_FACTORY_HOOK, id.size) == 0
             ? &factory
             : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

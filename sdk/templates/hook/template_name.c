/* A hook that ends a training when its loss has been at most `goal` for `steps` steps in a row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/define_plugin.h>
#include <weft/hook.h>

static const weft_host* host(void);

typedef struct goal_hook {
  weft_hook hook; /* what the host has */
  double goal;
  int64_t steps;
  int64_t reached; /* steps in a row whose loss was low: what is saved with a training */
} goal_hook;

static weft_status refuse(weft_error* error, weft_status status, weft_str text) {
  host()->error_set(error, status, text);
  return status;
}

/* The host calls it at the moments of `moments`, here after each step. */
static weft_status at(void* context, const weft_moment* moment, uint32_t* requests, weft_error* error) {
  goal_hook* const own = context;
  (void)error;
  own->reached = moment->result->loss <= own->goal ? own->reached + 1 : 0;
  if (own->reached >= own->steps) *requests = WEFT_ASK_STOP;
  return WEFT_OK;
}

static weft_status state(void* context, const weft_text_sink* text, weft_error* error) {
  const goal_hook* const own = context;
  char reached[32];
  (void)error;
  const int size = snprintf(reached, sizeof reached, "%lld", (long long)own->reached);
  text->append(text->context, (weft_str){reached, (uint64_t)size});
  return WEFT_OK;
}

static weft_status restore(void* context, weft_str saved, weft_error* error) {
  goal_hook* const own = context;
  char text[32] = "";
  char* stop = text;
  if (saved.size < sizeof text) memcpy(text, saved.data, saved.size);
  const long long reached = strtoll(text, &stop, 10);
  if (stop == text || *stop != '\0' || reached < 0)
    return refuse(error, WEFT_INVALID_ARGUMENT, WEFT_STR("the saved state is no number of steps"));
  own->reached = reached;
  return WEFT_OK;
}

static int is(weft_str text, const char* other) {
  return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

/* `options` are those of plugin.json, checked and complete. */
static weft_status create(const weft_hook_factory* factory, weft_str name, const weft_kv* options,
                          uint64_t num_options, const weft_hook** own, weft_error* error) {
  goal_hook* const made = calloc(1, sizeof *made);
  (void)factory;
  (void)name;
  if (made == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, WEFT_STR("there is no memory"));
  for (uint64_t i = 0; i < num_options; ++i) {
    if (is(options[i].key, "goal")) made->goal = options[i].real;
    if (is(options[i].key, "steps")) made->steps = options[i].integer;
  }
  made->hook.struct_size = sizeof(weft_hook);
  made->hook.context = made;
  made->hook.name = WEFT_STR("template_name");
  made->hook.moments = WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_STEP);
  made->hook.at = at;
  made->hook.state = state;
  made->hook.restore = restore;
  *own = &made->hook;
  return WEFT_OK;
}

static void destroy(const weft_hook_factory* factory, const weft_hook* hook) {
  (void)factory;
  if (hook != NULL) free(hook->context);
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  static const weft_hook_factory kFactory = {sizeof(weft_hook_factory), create, destroy};
  (void)plugin;
  return is(id, WEFT_FACTORY_HOOK) ? &kFactory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

static const weft_host* host(void) {
  return weft_plugin_host;
}

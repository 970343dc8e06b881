/* A hook that ends a training when its time is used up, and writes a line for each step to a file.
 *
 *   weft train ... --hook time_budget --hook-option time_budget.seconds=60 \
 *     --hook-option time_budget.file=steps.tsv
 *
 * Each rank asks to stop by a clock of its own. The host combines the requests, so that all ranks end after
 * the step in which the first clock has run out. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/define_plugin.h>
#include <weft/hook.h>

static const weft_host* host(void);

typedef struct budget {
  weft_hook hook; /* what the host has */
  double limit;   /* seconds; less than 0: none */
  double used;    /* seconds until the clock was read last */
  double read_at; /* when that was */
  char* path;
  FILE* file; /* on rank 0 */
} budget;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static weft_status refuse(weft_error* error, weft_status status, const char* what, const char* why) {
  char text[512];
  const int size = snprintf(text, sizeof text, "%s: %s", what, why);
  const uint64_t written = size < 0 ? 0 : (uint64_t)size < sizeof text ? (uint64_t)size : sizeof text - 1;
  host()->error_set(error, status, (weft_str){text, written});
  return status;
}

/* A training that goes on appends to its file. */
static weft_status begin(budget* own, const weft_moment* moment, weft_error* error) {
  own->read_at = now();
  if (moment->rank != 0 || own->path[0] == '\0') return WEFT_OK;
  own->file = fopen(own->path, moment->step > 0 ? "a" : "w");
  return own->file != NULL ? WEFT_OK : refuse(error, WEFT_UNAVAILABLE, own->path, strerror(errno));
}

static weft_status after_step(budget* own, const weft_moment* moment, uint32_t* requests, weft_error* error) {
  const weft_step_result* const result = moment->result;
  const double time = now();
  own->used += time - own->read_at;
  own->read_at = time;
  if (own->limit >= 0 && own->used > own->limit) *requests = WEFT_ASK_STOP;
  if (own->file == NULL) return WEFT_OK;
  if (fprintf(own->file, "%lld\t%.6g\t%.6g\t%.4f\n", (long long)moment->step, result->loss, result->lr,
              result->seconds) < 0 ||
      fflush(own->file) != 0)
    return refuse(error, WEFT_UNAVAILABLE, own->path, strerror(errno));
  return WEFT_OK;
}

static weft_status end(budget* own, weft_error* error) {
  FILE* const file = own->file;
  own->file = NULL;
  if (file == NULL || fclose(file) == 0) return WEFT_OK;
  return refuse(error, WEFT_UNAVAILABLE, own->path, strerror(errno));
}

static weft_status at(void* context, const weft_moment* moment, uint32_t* requests, weft_error* error) {
  switch (moment->kind) {
    case WEFT_MOMENT_BEGIN:
      return begin(context, moment, error);
    case WEFT_MOMENT_AFTER_STEP:
      return after_step(context, moment, requests, error);
    default:
      return end(context, error);
  }
}

/* What is saved with the training: the seconds that are used up. */
static weft_status state(void* context, const weft_text_sink* text, weft_error* error) {
  const budget* const own = context;
  char used[64];
  (void)error;
  const int size = snprintf(used, sizeof used, "%.3f", own->used);
  text->append(text->context, (weft_str){used, (uint64_t)size});
  return WEFT_OK;
}

static weft_status restore(void* context, weft_str saved, weft_error* error) {
  budget* const own = context;
  char text[64] = "";
  char* stop = text;
  if (saved.size < sizeof text) memcpy(text, saved.data, saved.size);
  own->used = strtod(text, &stop);
  if (stop != text && *stop == '\0' && own->used >= 0) return WEFT_OK;
  own->used = 0;
  return refuse(error, WEFT_INVALID_ARGUMENT, "time_budget", "its saved state is no number of seconds");
}

static void destroy(const weft_hook_factory* factory, const weft_hook* hook) {
  (void)factory;
  if (hook == NULL) return;
  budget* const own = hook->context;
  if (own->file != NULL) fclose(own->file);
  free(own->path);
  free(own);
}

static int is(weft_str text, const char* other) {
  return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

static weft_status create(const weft_hook_factory* factory, weft_str name, const weft_kv* options,
                          uint64_t num_options, const weft_hook** own, weft_error* error) {
  (void)factory, (void)name;
  budget* const made = calloc(1, sizeof *made);
  if (made == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, "time_budget", "there is no memory");
  made->limit = -1;
  for (uint64_t i = 0; i < num_options; ++i) {
    if (is(options[i].key, "seconds") && options[i].kind == WEFT_KIND_FLOAT) made->limit = options[i].real;
    if (is(options[i].key, "file")) {
      made->path = calloc(1, options[i].text.size + 1);
      if (made->path != NULL && options[i].text.size > 0)
        memcpy(made->path, options[i].text.data, options[i].text.size);
    }
  }
  made->hook =
      (weft_hook){.struct_size = sizeof(weft_hook),
                  .context = made,
                  .name = WEFT_STR("time_budget"),
                  .moments = WEFT_MOMENT_BIT(WEFT_MOMENT_BEGIN) | WEFT_MOMENT_BIT(WEFT_MOMENT_AFTER_STEP) |
                             WEFT_MOMENT_BIT(WEFT_MOMENT_END),
                  .at = at,
                  .state = state,
                  .restore = restore};
  if (made->path == NULL) {
    destroy(factory, &made->hook);
    return refuse(error, WEFT_RESOURCE_EXHAUSTED, "time_budget", "there is no memory");
  }
  *own = &made->hook;
  return WEFT_OK;
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  (void)plugin;
  static const weft_hook_factory kFactory = {sizeof(weft_hook_factory), create, destroy};
  return is(id, WEFT_FACTORY_HOOK) ? &kFactory : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

static const weft_host* host(void) {
  return weft_plugin_host;
}

/* What the C ABI costs a process: nanoseconds of a call to a plugin and of one to the host, and milliseconds
 * to load plugins. abi_cost.py runs it.
 *
 *   abi_cost KIND NAME...   prints {"to_plugin_ns": ..., "to_host_ns": ..., "load_ms": ...} */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/plugin.h>
#include <weft/runtime.h>

enum { kBatches = 11, kCalls = 2000000 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int order(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static const weft_plugin* plugin;
static weft_error* error;
static volatile uintptr_t kept; /* so that no call is left out */

static void call_plugin(void) {
  kept = (uintptr_t)plugin->get_factory(plugin, WEFT_STR("weft.factory.none/1"));
}

static void call_host(void) {
  kept = (uintptr_t)weft_error_text(error).data;
}

/* Returns the median of the batches. */
static double nanoseconds(void (*call)(void)) {
  double batches[kBatches];
  for (int b = 0; b < kBatches; ++b) {
    const double begin = now();
    for (int i = 0; i < kCalls; ++i) call();
    batches[b] = 1e9 * (now() - begin) / kCalls;
  }
  qsort(batches, kBatches, sizeof batches[0], order);
  return batches[kBatches / 2];
}

int main(int argc, char** argv) {
  weft_runtime* runtime = NULL;
  error = weft_error_create();
  if (argc < 3 || weft_runtime_create(WEFT_STR(""), &runtime, error) != WEFT_OK) return 2;
  const double begin = now();
  for (int i = 2; i < argc; ++i) {
    weft_loaded loaded = {.struct_size = sizeof loaded};
    const weft_str kind = {argv[1], 0}, name = {argv[i], 0};
    weft_str sized_kind = kind, sized_name = name;
    while (sized_kind.data[sized_kind.size] != 0) ++sized_kind.size;
    while (sized_name.data[sized_name.size] != 0) ++sized_name.size;
    if (weft_runtime_load(runtime, sized_kind, sized_name, WEFT_STR(""), &loaded, error) != WEFT_OK) {
      fprintf(stderr, "%s\n", weft_error_text(error).data);
      return 1;
    }
    plugin = loaded.plugin;
  }
  const double load = now() - begin;
  printf("{\"to_plugin_ns\": %.2f, \"to_host_ns\": %.2f, \"load_ms\": %.2f}\n", nanoseconds(call_plugin),
         nanoseconds(call_host), 1e3 * load);
  return 0;
}

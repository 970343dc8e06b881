/* A shard policy of which each macro makes another fault. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/define_plugin.h>
#include <weft/note.h>
#include <weft/shard_policy.h>

#ifndef PLUGIN_ABI
#define PLUGIN_ABI "0.2-2"
#endif
#ifndef PLUGIN_TIER
#define PLUGIN_TIER "c"
#endif
#ifndef PLUGIN_TORCH
#define PLUGIN_TORCH ""
#endif
#ifndef PLUGIN_SAID_VERSION
#define PLUGIN_SAID_VERSION PLUGIN_VERSION
#endif

#ifdef PLUGIN_TORCH_MIN
#define PLUGIN_LIBTORCH "torch_min=" PLUGIN_TORCH_MIN
#else
#define PLUGIN_LIBTORCH "torch=" PLUGIN_TORCH
#endif

#ifndef NO_NOTE
WEFT_PLUGIN_NOTE("id=" PLUGIN_ID "\nversion=" PLUGIN_VERSION "\ntier=" PLUGIN_TIER "\nabi=" PLUGIN_ABI
                 "\n" PLUGIN_LIBTORCH "\n");
#endif

#ifdef USES_TORCH_CXX
void USES_TORCH_CXX(void);
#endif
#ifdef CALLS_MISSING_FUNCTION
void weft_test_function_that_is_nowhere(void);
#endif

static weft_status build(const weft_shard_policy* policy, weft_str name, const weft_model_view* model,
                         const weft_parallel* parallel, const weft_plan_builder* plan, weft_error* error) {
  return WEFT_OK;
}

static const weft_shard_policy policy = {sizeof(weft_shard_policy), NULL, build};

static const weft_shard_policy* find(const weft_shard_policy_factory* factory, weft_str name) {
  return &policy;
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

#ifdef NAMED_FAULT
/* Commits the fault that the environment variable WEFT_TEST_FAULT names. */
void quick_exit(int code); /* of C11 */

static int deeper(volatile const char* from) {
  volatile char frame[4096];
  frame[0] = *from;
  return *from == 'x' ? deeper(frame) + frame[0] : 0;
}

static void commit_fault(void) {
  const char* const fault = getenv("WEFT_TEST_FAULT");
  if (fault == NULL) return;
  if (strcmp(fault, "exit") == 0) exit(0);
  if (strcmp(fault, "quick_exit") == 0) quick_exit(0);
  if (strcmp(fault, "_exit") == 0) _exit(0);
  if (strcmp(fault, "abort") == 0) abort();
  if (strcmp(fault, "trap") == 0) __builtin_trap();
  if (strcmp(fault, "recursion") == 0) deeper("x");
  while (strcmp(fault, "loop") == 0) sleep(1);
}
#endif

#ifndef NO_ENTRY
static weft_status init(const weft_plugin* plugin, const weft_host* host, weft_error* error) {
#ifdef CRASHING
  __builtin_trap();
#endif
#ifdef NAMED_FAULT
  commit_fault();
#endif
#ifdef EXITING
  exit(0);
#endif
#ifdef LEAVING
  _Exit(0);
#endif
#ifdef LOOPING
  volatile int loops = 1;
  while (loops) {
  }
#endif
#ifdef USES_TORCH_CXX
  USES_TORCH_CXX();
#endif
#ifdef CALLS_MISSING_FUNCTION
  weft_test_function_that_is_nowhere();
#endif
#ifdef FAILING_INIT
  host->error_set(error, WEFT_RESOURCE_EXHAUSTED, WEFT_STR("there is no quince left"));
  return WEFT_RESOURCE_EXHAUSTED;
#endif
  host->log(WEFT_LOG_DEBUG, WEFT_STR(PLUGIN_ID), WEFT_STR("started"));
  return WEFT_OK;
}

static const weft_plugin plugin = {sizeof(weft_plugin), NULL, init, NULL, get_factory, NULL};

WEFT_EXPORT weft_status weft_plugin_query_v1(const weft_query_request* request, weft_query_reply* reply,
                                             weft_error* error) {
  uint32_t agreed = 0;
  weft_status status = weft_negotiate(request, WEFT_ABI_MINOR_OLDEST, &agreed, error);
  if (status != WEFT_OK) return status;
  if (reply == NULL || !WEFT_HAS_FIELD(reply, weft_query_reply, plugin)) return WEFT_INVALID_ARGUMENT;
#ifdef REFUSING
  request->host->error_set(error, WEFT_FAILED_PRECONDITION, WEFT_STR("this machine has no quince"));
  return WEFT_FAILED_PRECONDITION;
#endif
  reply->struct_size = sizeof(weft_query_reply);
  reply->abi_minor = agreed;
  reply->tier = WEFT_TIER_C;
  reply->id = WEFT_STR(PLUGIN_ID);
  reply->version = WEFT_STR(PLUGIN_SAID_VERSION);
  reply->torch_tag = WEFT_STR("");
  reply->plugin = &plugin;
  return WEFT_OK;
}
#else
WEFT_EXPORT const void* weft_test_keep(void) {
  return (const void*)&get_factory;
}
#endif

/* The one symbol that a plugin exports, and the negotiation behind it.
 *
 * The host fills a request with the range of minors that it speaks; the plugin answers with the minor it
 * agrees to, or refuses with a reason. `weft_negotiate` does the plugin's half. Loading never unloads:
 * `shutdown` is the end of a plugin's work, its code stays mapped until the process ends. */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include "abi_version.h"
#include "host.h"
#include "types.h"

WEFT_BEGIN_C

/* What a plugin offers. Constant, valid until the process ends. */
typedef struct weft_plugin {
  uint64_t struct_size;

  /* Called once, before anything else; static constructors must do nothing. NULL: nothing to do.
   * [control] [no collective] since 0.1 */
  weft_status (*init)(weft_error* error);

  /* Called at most once, after the last object of the plugin is destroyed. NULL: nothing to do.
   * [control] [no collective] since 0.1 */
  void (*shutdown)(void);

  /* Returns the table behind a factory id (WEFT_FACTORY_*), or NULL. It is valid until the process ends.
   * [any thread] [no collective] since 0.1 */
  const void* (*get_factory)(weft_str id);

  /* Returns an optional ability by its id, or NULL. A NULL slot: no abilities.
   * [any thread] [no collective] since 0.1 */
  const void* (*get_extension)(weft_str id);
} weft_plugin;

/* What the host says to a plugin. */
typedef struct weft_query_request {
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor_min; /* the host speaks every minor from here ... */
  uint32_t abi_minor_max; /* ... to here */
  uint32_t reserved;
  weft_str host_version; /* of Weft, "0.1.0" */
  weft_str torch_tag;    /* of the libtorch in this process; empty while none is loaded */
  weft_str build_id;     /* of the engine, for tier native; empty while none is loaded */
  const weft_host* host;
} weft_query_request;

/* What the plugin answers. */
typedef struct weft_query_reply {
  uint64_t struct_size; /* in: the host's; out: what the plugin filled */
  uint32_t abi_minor;   /* the agreed minor */
  uint32_t tier;        /* WEFT_TIER_* */
  weft_str id;
  weft_str version;
  weft_str torch_tag; /* what it was compiled against; empty in tier c */
  const weft_plugin* plugin;
} weft_query_reply;

/* The entry of a plugin: fills the reply. On failure the reply is untouched and `error` says why.
 * [control] [no collective] since 0.1 */
typedef weft_status (*weft_plugin_query_fn)(const weft_query_request* request, weft_query_reply* reply,
                                            weft_error* error);
#define WEFT_QUERY_SYMBOL "weft_plugin_query_v1"
WEFT_EXPORT weft_status weft_plugin_query_v1(const weft_query_request* request, weft_query_reply* reply,
                                             weft_error* error);

/* Agrees on a minor between the request's range and the plugin's, [minor_min, WEFT_ABI_MINOR]. On success it
 * sets `*agreed`, otherwise the error. While the major is 0 the minors must be equal. */
static inline weft_status weft_negotiate(const weft_query_request* request, uint32_t minor_min,
                                         uint32_t* agreed, weft_error* error) {
  uint32_t low, high;
  if (request == NULL || !WEFT_HAS_FIELD(request, weft_query_request, host) || request->host == NULL)
    return WEFT_INVALID_ARGUMENT;
  if (request->abi_major != WEFT_ABI_MAJOR) {
    request->host->error_set(
        error, WEFT_FAILED_PRECONDITION,
        WEFT_STR("the plugin was built for another major of Weft's ABI than the host's"));
    return WEFT_FAILED_PRECONDITION;
  }
  low = request->abi_minor_min > minor_min ? request->abi_minor_min : minor_min;
  high = request->abi_minor_max < WEFT_ABI_MINOR ? request->abi_minor_max : WEFT_ABI_MINOR;
  if (low > high) {
    request->host->error_set(error, WEFT_FAILED_PRECONDITION,
                             WEFT_STR("the plugin and the host have no minor of Weft's ABI in common"));
    return WEFT_FAILED_PRECONDITION;
  }
  *agreed = high;
  return WEFT_OK;
}

WEFT_END_C

#endif

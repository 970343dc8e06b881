/* The one function that a plugin exports, and how host and plugin agree on a version of the ABI.
 *
 * The host's request has the range of minor versions that the host supports. The plugin replies with the
 * minor version that both will use, or refuses with a reason; `weft_negotiate` does this for the plugin. A
 * plugin is never unloaded: after `shutdown` it does no more work, but its code stays mapped until the
 * process ends. */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include "abi_version.h"
#include "host.h"
#include "types.h"

WEFT_BEGIN_C

/* The functions of a plugin. Constant and valid until the process ends. Each gets the table itself. */
typedef struct weft_plugin weft_plugin;
struct weft_plugin {
  uint64_t struct_size;
  void* context; /* of the plugin's own */

  /* Initialises the plugin, which may keep `host`. Called once, before any other function; static
   * constructors must do nothing. May be NULL. [control] [no collective] since 0.2 */
  weft_status (*init)(const weft_plugin* plugin, const weft_host* host, weft_error* error);

  /* Ends the plugin's work. Called at most once, after the last object of the plugin is destroyed. May be
   * NULL. [control] [no collective] since 0.2 */
  void (*shutdown)(const weft_plugin* plugin);

  /* Returns the factory with this id (WEFT_FACTORY_*), or NULL. It is valid until the process ends. [any
   * thread] [no collective] since 0.2 */
  const void* (*get_factory)(const weft_plugin* plugin, weft_str id);

  /* Returns the table of an optional ability by its id, or NULL. May be NULL itself: no abilities. [any
   * thread] [no collective] since 0.2 */
  const void* (*get_extension)(const weft_plugin* plugin, weft_str id);
};

/* What the host tells a plugin. */
typedef struct weft_query_request {
  uint64_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor_min; /* the oldest minor version that the host supports */
  uint32_t abi_minor_max; /* the newest */
  uint32_t reserved;
  weft_str host_version; /* of Weft, "0.1.0" */
  weft_str torch_tag;    /* of the libtorch in this process; empty until it is loaded */
  weft_str build_id;     /* of the engine, for tier native; empty until it is loaded */
  const weft_host* host;
} weft_query_request;

/* What a plugin replies. */
typedef struct weft_query_reply {
  uint64_t struct_size; /* in: the host's size; out: how much of it the plugin filled */
  uint32_t abi_minor;   /* the agreed minor */
  uint32_t tier;        /* WEFT_TIER_* */
  weft_str id;
  weft_str version;
  weft_str torch_tag; /* of the libtorch that it was compiled against; empty in tiers c and stable */
  const weft_plugin* plugin;
} weft_query_reply;

/* Fills the reply. The exported function of every plugin has this type. On failure it leaves the reply
 * untouched and `error` says why. [control] [no collective] since 0.2 */
typedef weft_status (*weft_plugin_query_fn)(const weft_query_request* request, weft_query_reply* reply,
                                            weft_error* error);
#define WEFT_QUERY_SYMBOL "weft_plugin_query_v1"
WEFT_EXPORT weft_status weft_plugin_query_v1(const weft_query_request* request, weft_query_reply* reply,
                                             weft_error* error);

/* Sets `*agreed` to the newest minor version that is both in the request's range and in the plugin's,
 * [minor_min, WEFT_ABI_MINOR]. Sets the error if there is none. [any thread] [no collective] since 0.2 */
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
    request->host->error_set(
        error, WEFT_FAILED_PRECONDITION,
        WEFT_STR("the plugin and the host have no minor of Weft's ABI in common; rebuild the plugin"));
    return WEFT_FAILED_PRECONDITION;
  }
  *agreed = high;
  return WEFT_OK;
}

WEFT_END_C

#endif

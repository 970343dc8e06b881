/* The application's entry into Weft: errors, the log, and plugins found by name. Exported by libweft.so,
 * which needs no libtorch. Functions are [control] and issue no collective unless said otherwise; since 0.1.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include "plugin.h"
#include "types.h"

WEFT_BEGIN_C

/* Returns the version, "0.1.0". [any thread] */
WEFT_EXPORT weft_str weft_version(void);

/* Make and destroy an error sink, and return its status. It can be reused: a call that fails overwrites it, a
 * call that succeeds leaves it as it is. */
WEFT_EXPORT weft_error* weft_error_create(void);
WEFT_EXPORT void weft_error_destroy(weft_error* error);
WEFT_EXPORT weft_status weft_error_status(const weft_error* error);
/* Returns the text of the last failure; valid until the next call with this error. */
WEFT_EXPORT weft_str weft_error_text(const weft_error* error);
/* Sets status and text, as host->error_set does. NULL is accepted. */
WEFT_EXPORT void weft_error_set(weft_error* error, weft_status status, weft_str text);

/* Writes one line to the process's log, as host->log; `from` is empty for the application itself. [any
 * thread] */
WEFT_EXPORT void weft_log(uint32_t level, weft_str from, weft_str text);

/* Knows where plugins are and which ones are loaded. There may be several; a library is loaded once per
 * process. */
typedef struct weft_runtime weft_runtime;

/* Makes a runtime. `options` is JSON, or empty. "plugin_paths" is an array of folders that are searched
 * before those of the environment; "safe_mode": true admits only the plugins installed with Weft. Unknown
 * keys are errors. */
WEFT_EXPORT weft_status weft_runtime_create(weft_str options, weft_runtime** own, weft_error* error);
WEFT_EXPORT void weft_runtime_destroy(weft_runtime* runtime);

/* A loaded library of a plugin. All pointers are valid until the process ends. */
typedef struct weft_loaded {
  uint64_t struct_size;
  const weft_plugin* plugin;
  weft_str id;
  weft_str version;
  weft_str kind;     /* "strategy", "shard_policy", "model", "checkpoint_io", "operation" */
  weft_str path;     /* of the library */
  weft_str digest;   /* SHA-256 of the library, hexadecimal */
  weft_str manifest; /* plugin.json as text */
  uint32_t tier;
  uint32_t abi_minor; /* the agreed one */
} weft_loaded;

/* Finds what provides `name` (a strategy, a family, an architecture, a format) and loads it, or returns what
 * is loaded already. An empty name is the kind's default, the plugin whose manifest says so. `version` is
 * empty for the newest. Errors name every candidate and why it was passed over, the folders searched and the
 * nearest name. */
WEFT_EXPORT weft_status weft_runtime_load(weft_runtime* runtime, weft_str kind, weft_str name,
                                          weft_str version, weft_loaded* out, weft_error* error);

/* Returns everything that was found, as JSON: {"plugins": [{id, version, kind, provides, tier, folder,
 * default, problem?}], "searched":
 * [...]}. Reads manifests and loads nothing. Release with weft_text_destroy. */
WEFT_EXPORT weft_status weft_runtime_list(weft_runtime* runtime, weft_str* own, weft_error* error);
WEFT_EXPORT void weft_text_destroy(weft_str text);

WEFT_END_C

#endif

/* What applications use first: errors, the log, and plugins that are found by name. Exported by libweft.so,
 * which does not need libtorch. Functions are [control] and issue no collective unless their comment says
 * otherwise; since 0.2. */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include "plugin.h"
#include "types.h"

WEFT_BEGIN_C

/* Returns the version of Weft, "0.1.0". [any thread] */
WEFT_EXPORT weft_str weft_version(void);

/* Create and destroy an error, and return its status. It can be reused: a call that fails overwrites it, and
 * a call that succeeds leaves it unchanged. */
WEFT_EXPORT weft_error* weft_error_create(void);
WEFT_EXPORT void weft_error_destroy(weft_error* error);
WEFT_EXPORT weft_status weft_error_status(const weft_error* error);
/* Returns the text of the last failure. Valid until the next call with this error. */
WEFT_EXPORT weft_str weft_error_text(const weft_error* error);
/* Sets the status and text, as host->error_set does. NULL is accepted. */
WEFT_EXPORT void weft_error_set(weft_error* error, weft_status status, weft_str text);

/* Writes one line to the log of this process, as host->log does. `from` is empty for the application itself.
 * [any thread] */
WEFT_EXPORT void weft_log(uint32_t level, weft_str from, weft_str text);

/* Finds and loads plugins. A process may have several runtimes; a library is loaded once per process. */
typedef struct weft_runtime weft_runtime;

/* Creates a runtime. `options` is a JSON object, or empty. "plugin_paths" is an array of folders that are
 * searched before those of the environment; "safe_mode": true loads only the plugins that are installed with
 * Weft. An unknown key is an error. */
WEFT_EXPORT weft_status weft_runtime_create(weft_str options, weft_runtime** own, weft_error* error);
WEFT_EXPORT void weft_runtime_destroy(weft_runtime* runtime);

/* A library of a plugin that is loaded. All pointers are valid until the process ends. */
typedef struct weft_loaded {
  uint64_t struct_size;
  const weft_plugin* plugin;
  weft_str id;
  weft_str version;
  /* "strategy", "shard_policy", "model", "checkpoint_io", "operation", "device", "tokenizer", "data",
   * "objective" or "hook" */
  weft_str kind;
  weft_str path;     /* of the library */
  weft_str digest;   /* SHA-256 of the library, hexadecimal */
  weft_str manifest; /* plugin.json as text */
  uint32_t tier;
  uint32_t abi_minor; /* that host and plugin agreed on */
} weft_loaded;

/* Loads the plugin of `kind` that provides `name` (a strategy, a family, an architecture, a format), or
 * returns it if it is already loaded. With an empty name it loads the default plugin of the kind, which says
 * so in its manifest; of several the one that is installed with Weft. `version` is "0.3" for the newest
 * 0.3.x, "=0.3.1" for this version alone or "1.0.0-rc.1" for a pre-release; `name` may have it behind an @. A
 * version that is named is bound: this runtime, and what boosts with it, uses it until it names another one
 * of the plugin. An empty `version` selects the bound one, else the one that the user has pinned, else the
 * newest release. Errors list every candidate and why it was not loaded, the folders that were searched, and
 * the nearest name. */
WEFT_EXPORT weft_status weft_runtime_load(weft_runtime* runtime, weft_str kind, weft_str name,
                                          weft_str version, weft_loaded* out, weft_error* error);

/* Returns all plugins that were found, as JSON: {"plugins": [{id, version, kind, provides, tier, folder,
 * default, problem?}], "searched": [...]}; `default` is true for the version that an empty name means. Reads
 * manifests and loads nothing. Release the text with weft_text_destroy. */
WEFT_EXPORT weft_status weft_runtime_list(weft_runtime* runtime, weft_str* own, weft_error* error);
WEFT_EXPORT void weft_text_destroy(weft_str text);

WEFT_END_C

#endif

/* Functions of libweft for the `weft` program of the same build. They are exported, but the header is not
 * installed. */
#ifndef WEFT_COMMAND_H
#define WEFT_COMMAND_H

#include <weft/runtime.h>

WEFT_BEGIN_C

/* Runs a verb that needs tensors ("train", ...) in the engine, which it loads. `arguments` is JSON. [control]
 * [blocks] */
WEFT_EXPORT weft_status weft_command(weft_str verb, weft_str arguments, int32_t* exit_code,
                                     weft_error* error);

/* Lists plugins as weft_runtime_list does and inspects every library: its note, who can write it, its digest.
 * Loads nothing. */
WEFT_EXPORT weft_status weft_plugins_doctor(weft_runtime* runtime, weft_str* own, weft_error* error);

/* Loads and tests the library `file`, or all libraries of a plugin's folder. Calls `tell` with `to` and each
 * event of core/host/validate.hpp, as JSON. */
WEFT_EXPORT weft_status weft_plugins_validate(weft_str file, void (*tell)(void* to, weft_str event), void* to,
                                              weft_error* error);

/* Install the plugin in a folder or archive, remove "NAME@VERSION" from the user's folder of plugins, pin
 * "NAME@VERSION", and remove the pin of "NAME". Return JSON: {id, version, folder}, or of a pin {id, pinned,
 * version?}. */
WEFT_EXPORT weft_status weft_plugins_install(weft_runtime* runtime, weft_str source, weft_str* own,
                                             weft_error* error);
WEFT_EXPORT weft_status weft_plugins_remove(weft_runtime* runtime, weft_str name, weft_str* own,
                                            weft_error* error);
WEFT_EXPORT weft_status weft_plugins_pin(weft_runtime* runtime, weft_str name, weft_str* own,
                                         weft_error* error);
WEFT_EXPORT weft_status weft_plugins_unpin(weft_runtime* runtime, weft_str name, weft_str* own,
                                           weft_error* error);

WEFT_END_C

#endif

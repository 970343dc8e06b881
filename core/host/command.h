/* What the `weft` program takes from libweft beyond the public API: both are of the same build. Exported, not installed. */
#ifndef WEFT_COMMAND_H
#define WEFT_COMMAND_H

#include <weft/runtime.h>

WEFT_BEGIN_C

/* Runs a verb that needs tensors ("train", ...) in the engine, which is opened here; `arguments` is JSON.
 * [control] [blocks] */
WEFT_EXPORT weft_status weft_command(weft_str verb, weft_str arguments, int32_t* exit_code, weft_error* error);

/* As weft_runtime_list, but every library is inspected: its note, who may write it, its digest. Nothing is loaded. */
WEFT_EXPORT weft_status weft_plugins_doctor(weft_runtime* runtime, weft_str* own, weft_error* error);

/* Loads the library `file` (or all of a plugin's folder) and tries it: {"libraries": [{file, id, version, kind, checks:
 * [{name, passed, text}]}], "passed": true}. */
WEFT_EXPORT weft_status weft_plugins_validate(weft_str file, weft_str* own, weft_error* error);

WEFT_END_C

#endif

/* The private table between libweft.so and libweft_engine.so. libweft loads the engine from its own folder on
 * first use and gets the table through one symbol. An engine of another build is an error. */
#ifndef WEFT_ENGINE_TABLE_H
#define WEFT_ENGINE_TABLE_H

#include <weft/host.h>
#include <weft/types.h>

#include "application_functions.h"

WEFT_BEGIN_C

typedef struct weft_engine_table {
  uint64_t struct_size;
  weft_str build_id;
  weft_str torch_tag; /* of the libtorch that the engine runs on */

  /* Returns an extension of host->get_extension that the engine implements, or NULL for an unknown id. */
  const void* (*services)(weft_str id);

  /* Runs a verb of the command that needs tensors ("train", "evaluate", ...). `arguments` is JSON. Sets
   * `*exit_code` to the exit code of the command. [control] [blocks] */
  weft_status (*command)(weft_str verb, weft_str arguments, int32_t* exit_code, weft_error* error);

  /* The functions behind weft/booster.h and weft/tensor.h. */
  const weft_application_table* application;
} weft_engine_table;

#define WEFT_ENGINE_SYMBOL "weft_engine_v0"
typedef const weft_engine_table* (*weft_engine_fn)(void);

WEFT_END_C

#endif

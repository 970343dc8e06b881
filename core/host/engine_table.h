/* The private table between libweft.so and libweft_engine.so of the same build. libweft opens the engine beside itself on
 * first need and takes the table through one symbol; another build id is refused. */
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

  /* What host->get_extension serves from the engine; NULL for an unknown id. */
  const void* (*services)(weft_str id);

  /* A verb of the command that needs tensors ("train", "evaluate", ...) with its arguments as JSON; `*exit_code` is the
   * command's. [control] [blocks] */
  weft_status (*command)(weft_str verb, weft_str arguments, int32_t* exit_code, weft_error* error);

  /* What weft/booster.h and weft/tensor.h forward to. */
  const weft_application_table* application;
} weft_engine_table;

#define WEFT_ENGINE_SYMBOL "weft_engine_v0"
typedef const weft_engine_table* (*weft_engine_fn)(void);

WEFT_END_C

#endif

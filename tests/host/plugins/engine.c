/* Something with the engine's entry; which table it shows is asked for by macros. */
#include "host/engine_table.h"

static const int service = 42;

static const void* services(weft_str id) {
  return id.size > 0 ? &service : NULL;
}

static weft_status command(weft_str verb, weft_str arguments, int32_t* exit_code, weft_error* error) {
  *exit_code = (int32_t)(verb.size + arguments.size);
  return WEFT_OK;
}

static const weft_engine_table table = {.struct_size = sizeof(weft_engine_table),
                                        .build_id = {ENGINE_BUILD, sizeof(ENGINE_BUILD) - 1},
                                        .torch_tag = {"torch=2.11.0", 12},
                                        .services = services,
                                        .command = command};

WEFT_EXPORT const weft_engine_table* weft_engine_v0(void) {
  return ENGINE_BUILD[0] == '\0' ? NULL : &table;
}

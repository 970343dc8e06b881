/* The functions that the host gives to every plugin. */
#ifndef WEFT_HOST_H
#define WEFT_HOST_H

#include "types.h"

WEFT_BEGIN_C

/* Levels of the log. */
#define WEFT_LOG_DEBUG 0
#define WEFT_LOG_INFO 1
#define WEFT_LOG_WARNING 2
#define WEFT_LOG_ERROR 3

/* The host's functions. One table per process, constant and valid until the process ends. */
typedef struct weft_host {
  uint64_t struct_size;

  /* Sets the status and text of a failure and copies the text. Call it once, then return the same status.
   * [any thread] [no collective] since 0.2 */
  void (*error_set)(weft_error* error, weft_status status, weft_str text);

  /* Writes a line to the host's log, prefixed with the rank and `plugin_id`. `level` is WEFT_LOG_*. [any
   * thread] [no collective] since 0.2 */
  void (*log)(uint32_t level, weft_str plugin_id, weft_str text);

  /* Returns the table of services with this id, such as "weft.model/1" (the headers list them), or NULL if
   * the host does not have it. The table is valid until the process ends. [any thread] [no collective] since
   * 0.2 */
  const void* (*get_extension)(weft_str id);
} weft_host;

WEFT_END_C

#endif

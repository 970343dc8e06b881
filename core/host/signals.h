/* The stop signals of the `weft` program: functions of libweft for the program and the engine of the same
 * build. They are exported, but the header is not installed. */
#ifndef WEFT_SIGNALS_H
#define WEFT_SIGNALS_H

#include <weft/types.h>

WEFT_BEGIN_C

/* Takes SIGINT, SIGTERM and SIGHUP in a thread, from now until weft_signals_end (host/signal_thread.hpp).
 * Both in the main thread. */
WEFT_EXPORT void weft_signals_begin(void);
WEFT_EXPORT void weft_signals_end(void);

/* Lets `action` take the signals in that thread, in place of the default action, which NULL restores. Returns
 * 0 and does nothing if there is no such thread, as in applications. [any thread] */
typedef void (*weft_signal_action)(void* context, int32_t number, int64_t sender);
WEFT_EXPORT uint32_t weft_signals_take(weft_signal_action action, void* context);

WEFT_END_C

#endif

/* How long plugins may take to load: a function of libweft for the engine of the same build. It is exported,
 * but the header is not installed. */
#ifndef WEFT_LOADING_H
#define WEFT_LOADING_H

#include <weft/types.h>

WEFT_BEGIN_C

/* Sets how long the code of a library may take while it is loaded, at first 30 minutes. Then the process ends
 * with exit code 1 and names the library. [any thread] */
WEFT_EXPORT void weft_limit_loading(int64_t milliseconds);

WEFT_END_C

#endif

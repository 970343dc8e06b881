#include <weft/runtime.h>

extern "C" weft_str weft_version(void) {
  return WEFT_STR(WEFT_VERSION);
}

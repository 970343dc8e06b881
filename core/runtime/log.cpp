#include "log.hpp"

#include "base/text.hpp"
#include "weft/runtime.h"

namespace weft {

void log(uint32_t level, std::string_view text) {
  weft_log(level, borrow(""), borrow(text));
}

}  // namespace weft

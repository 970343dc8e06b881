#include "sequence_modes/list.hpp"
#include "streams/residual_stream.hpp"

namespace weft::parallel {

// Weak, so that a missing function is null and a test can name its mode, instead of a failure to link.
#define WEFT_DECLARE(name) \
  __attribute__((weak)) std::shared_ptr<ResidualStream> make_##name(const StreamSetting& setting);
WEFT_SEQUENCE_MODES(WEFT_DECLARE)

MakeStream stream_maker(std::string_view mode) {
#define WEFT_MAKER(name) \
  if (mode == #name) return &make_##name;
  WEFT_SEQUENCE_MODES(WEFT_MAKER)
  return nullptr;
}

}  // namespace weft::parallel

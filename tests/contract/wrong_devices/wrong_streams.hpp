// Work that is done later than the simulated accelerator does it, so that who does not wait for it sees what
// was there before.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::test {

// Keeps the copy on the current stream for later, if work is late there: until the stream gets other work, or
// somebody waits for it. Returns whether it was kept.
bool is_late(const at::Tensor& from, const at::Tensor& to);

}  // namespace weft::test

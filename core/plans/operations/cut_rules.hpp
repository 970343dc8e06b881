// What messages say of dimensions that cannot be sharded.
#pragma once

#include <cstdint>
#include <string>

namespace weft::plan {

// Returns the divisors of `value` nearest to `size`, below and above: "1 and 3".
std::string nearest_divisors(int64_t value, int64_t size);

}  // namespace weft::plan

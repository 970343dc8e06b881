// The buckets that the kit's GradientBuckets makes, seen from outside.
#pragma once

#include <weft/strategy.h>

#include <string>
#include <vector>

namespace weft::test {

// A strategy that writes the names of each bucket's parameters to `layout` in configure. One at a time.
const weft_strategy_api* bucket_layout_strategy(int64_t capacity_bytes,
                                                std::vector<std::vector<std::string>>* layout);

}  // namespace weft::test

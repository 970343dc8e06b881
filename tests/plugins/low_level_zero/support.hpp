// Jobs under low_level_zero.
#pragma once

#include <fmt/format.h>

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

// `keys`: JSON members, "\"stage\": 2".
inline JobOptions zero(const std::string& keys = "", const std::string& precision = "fp32") {
  JobOptions chosen;
  chosen.strategy = "low_level_zero";
  chosen.options = "{" + keys + "}";
  chosen.precision = precision;
  return chosen;
}

inline std::string stage(int64_t number) {
  return "\"stage\": " + std::to_string(number);
}

// Buckets of `elements`.
inline std::string buckets(int64_t elements) {
  return fmt::format("\"reduce_bucket_size_in_m\": {}", static_cast<double>(elements) / (1 << 20));
}

}  // namespace weft::test

// Jobs under gemini.
#pragma once

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "plugins/support/pools.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

inline JobOptions gemini(const std::string& members, const std::string& precision = "fp32") {
  JobOptions chosen;
  chosen.strategy = "gemini";
  chosen.options = "{" + members + "}";
  chosen.precision = precision;
  return chosen;
}

// For kEvenToy: chunk 0 holds the embedding and the norm of block 0; chunk i from 1 to 24 the linear layer of
// block i - 1 and the norm of block i. Unit i from 1 to 24 is block i - 1, 0 and 25 are embedding and head.
inline constexpr const char* kEvenChunks = R"("chunk_config_dict": {"chunk_size": 37440})";
inline constexpr int64_t kChunks = 25, kUnits = 26;
inline constexpr int64_t kChunkBytes = kEvenBlock * 4;

}  // namespace weft::test

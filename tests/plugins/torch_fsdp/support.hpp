// Jobs under torch_fsdp.
#pragma once

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

inline JobOptions fsdp(const std::string& options = "{}", const std::string& precision = "fp32") {
  JobOptions chosen;
  chosen.strategy = "torch_fsdp";
  chosen.options = options;
  chosen.precision = precision;
  return chosen;
}

inline constexpr const char* kFull = R"({"sharding_strategy": "FULL_SHARD"})";
inline constexpr const char* kGradOp = R"({"sharding_strategy": "SHARD_GRAD_OP"})";
inline constexpr const char* kNone = R"({"sharding_strategy": "NO_SHARD"})";
inline constexpr const char* kHybridOne = R"({"sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 1})";
inline constexpr const char* kHybridTwo = R"({"sharding_strategy": "HYBRID_SHARD", "hybrid_shard_size": 2})";

}  // namespace weft::test

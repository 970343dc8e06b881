// The ways to share out sequences, for tests of every model in all of them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "train/training/boosted.hpp"

namespace weft::test {

// `axes`: "\"sp_size\": 2, "
inline JobOptions in_mode(const std::string& mode, const std::string& axes,
                          const std::string& precision = "fp64",
                          const std::string& strategy = "hybrid_parallel") {
  return {.strategy = strategy,
          .options = fmt::format(
              R"({{{}"enable_sequence_parallelism": true, "sequence_parallelism_mode": "{}"}})", axes, mode),
          .precision = precision};
}

struct Split {
  const char* mode;
  const char* axes;
  int ranks;
};

inline constexpr Split kSplits[] = {
    {"split_gather", R"("tp_size": 2, "enable_sequence_overlap": true, )", 2},
    {"split_gather", R"("tp_size": 4, )", 4},
    {"ring", R"("tp_size": 2, )", 2},
    {"ring", R"("tp_size": 4, )", 4},
    {"all_to_all", R"("sp_size": 2, )", 2},
    {"all_to_all", R"("sp_size": 4, )", 4},
    {"all_to_all", R"("sp_size": 2, "tp_size": 2, )", 4},
    {"ring_attn", R"("sp_size": 2, )", 2},
    {"ring_attn", R"("sp_size": 4, )", 4},
    {"ring_attn", R"("sp_size": 4, "inner_ring_size": 2, )", 4},
    {"ring_attn", R"("sp_size": 2, "tp_size": 2, )", 4},
    {"split_gather", R"("tp_size": 2, )", 2},
};

// Whole sequences on tensor axes.
inline constexpr Split kWholes[] = {{"", R"("tp_size": 2, )", 2}, {"", R"("tp_size": 4, )", 4}};

// Returns the options of an element of kSplits or kWholes.
inline JobOptions laid_out(const Split& split, const std::string& precision = "fp64") {
  if (*split.mode != 0) return in_mode(split.mode, split.axes, precision);
  return {.strategy = "hybrid_parallel",
          .options = fmt::format(R"({{{}"enable_sequence_parallelism": false}})", split.axes),
          .precision = precision};
}

inline std::string name_of(const testing::TestParamInfo<Split>& info) {
  std::string name = info.param.mode;
  for (const char* c = info.param.axes; *c != 0; ++c)
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  return name;
}

}  // namespace weft::test

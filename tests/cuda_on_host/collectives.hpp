// Kernels that call each collective, to test the harness itself.
#pragma once

#include <cstdint>

namespace weft::testing {

struct CollectivesResult {
  int scan;
  double down;
  int64_t broadcast;
  int segment;
  uint32_t odd;
  int any, all, half;
};
void collectives(CollectivesResult* results);  // two blocks of 64 threads

constexpr int kBins = 7;
void histogram(const int* values, int count, int* bins);

// Three times one lane to the left within each warp; 256 values.
void rotate_warps(float* values);

}  // namespace weft::testing

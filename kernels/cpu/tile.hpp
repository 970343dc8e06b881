// Small matrix products whose operands lie in a cache: the inner loops of attention. One operand is read a
// number at a time, the other a vector at a time, and the sums stay in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"

namespace weft::kernels {

// Element (i, p) is data[i * row + p * column]; a transposed matrix has row and column exchanged.
struct Scalars {
  const float* data;
  int64_t row, column;
};
// Rows of contiguous values, `row` apart.
struct Rows {
  const float* data;
  int64_t row;
};

// The sums in registers: rows x vectors of 16. AVX-512 has 32 registers of 16 floats, AVX2 16 of 8.
template <InstructionSet kSet>
inline constexpr int kTileRows = kSet == InstructionSet::kAvx512 ? 8 : 4;
template <InstructionSet kSet>
inline constexpr int kTileVectors = kSet == InstructionSet::kAvx512 ? 2 : 1;
// So much of b is used again and again from the first cache.
inline constexpr int64_t kTileDepth = 64;

template <int kRows, int kVectors>
WEFT_INLINE void multiply_tile(int64_t depth, const Scalars& a, const Rows& b, float* c, int64_t c_row,
                               bool add) {
  Floats sums[kRows][kVectors] = {};
  if (add) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) load(sums[i][v], c + i * c_row + v * kLanes);
    }
  }
  for (int64_t p = 0; p < depth; ++p) {
    Floats values[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) load(values[v], b.data + p * b.row + v * kLanes);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float x = a.data[i * a.row + p * a.column];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) sums[i][v] += x * values[v];
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) store(sums[i][v], c + i * c_row + v * kLanes);
  }
}

template <int kRows, int kVectors>
WEFT_INLINE void multiply_column(int64_t m, int64_t depth, Scalars a, const Rows& b, float* c, int64_t c_row,
                                 bool add) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    multiply_tile<kRows, kVectors>(depth, {a.data + i * a.row, a.row, a.column}, b, c + i * c_row, c_row,
                                   add);
  }
  if constexpr (kRows > 1) {
    if (i < m)
      multiply_column<kRows / 2, kVectors>(m - i, depth, {a.data + i * a.row, a.row, a.column}, b,
                                           c + i * c_row, c_row, add);
  }
}

// c = a b, or c += a b. a: (m, depth), b: (depth, n), c: (m, n) with rows c_row apart; n is a multiple of 16.
template <InstructionSet kSet>
WEFT_INLINE void multiply(int64_t m, int64_t n, int64_t depth, const Scalars& a, const Rows& b, float* c,
                          int64_t c_row, bool add) {
  constexpr int64_t kWide = kTileVectors<kSet> * kLanes;
  for (int64_t p = 0; p < depth; p += kTileDepth) {
    const int64_t part = std::min(kTileDepth, depth - p);
    const Scalars left = {a.data + p * a.column, a.row, a.column};
    const float* right = b.data + p * b.row;
    const bool adds = add || p > 0;
    int64_t j = 0;
    for (; j + kWide <= n; j += kWide) {
      multiply_column<kTileRows<kSet>, kTileVectors<kSet>>(m, part, left, {right + j, b.row}, c + j, c_row,
                                                           adds);
    }
    for (; j < n; j += kLanes) {
      multiply_column<kTileRows<kSet>, 1>(m, part, left, {right + j, b.row}, c + j, c_row, adds);
    }
  }
}

}  // namespace weft::kernels

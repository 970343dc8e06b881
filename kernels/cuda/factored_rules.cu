#include "cuda/factored_rules.hpp"

#include "cuda/summed_table.cuh"

namespace weft::kernels::cuda {

namespace {

// x / divisor for 0 <= x < divisor + kChunkElements, without a division of 64 bits.
__device__ int64_t quotient(int64_t x, int64_t divisor) {
  if (x < divisor) return 0;
  return divisor > kChunkElements ? 1 : static_cast<uint32_t>(x) / static_cast<uint32_t>(divisor);
}

// Calls element(range, i, row factor, column factor) for each element of this block's chunk.
template <class T, class Element>
__device__ void for_factored(const FactoredTable<T>& table, const Element& element) {
  const Chunk chunk = table.chunks[blockIdx.x];
  const FactoredRange<T> range = table.ranges[chunk.range];
  const MatrixRange place = range.place;
  const int64_t first = place.begin + chunk.begin;
  const int64_t row = first / place.columns, column = first - row * place.columns;
  const int64_t matrix = row / place.rows, row_of_matrix = row - matrix * place.rows;
  const T* const rows = range.row_factors + (row - range.first_row);
  const T* const columns = range.column_factors + (matrix - range.first_matrix) * place.columns;
  for (int32_t i = threadIdx.x; i < chunk.count; i += kThreads) {
    const int64_t down = quotient(column + i, place.columns);
    const int64_t matrices = quotient(row_of_matrix + down, place.rows);
    element(range, chunk.begin + i, rows[down], columns[(matrices - down) * place.columns + column + i]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) factored_step_kernel(const FactoredTable<T> table) {
  for_factored(table, [&](const FactoredRange<T>& range, int64_t i, T row, T column) {
    factored_step_element(static_cast<T>(range.rate) * row, static_cast<T>(range.keep), range.gradient[i],
                          column, range.value[i]);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    factored_average_kernel(const FactoredTable<T> table, const double beta) {
  for_factored(table, [&](const FactoredRange<T>& range, int64_t i, T row, T column) {
    factored_average_element(static_cast<T>((1 - beta) * range.rate) * row, static_cast<T>(beta),
                             range.gradient[i], column, range.value[i]);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    factored_norms_kernel(const FactoredTable<T> table, double* parts) {
  double sum = 0;
  for_factored(table, [&](const FactoredRange<T>& range, int64_t i, T row, T column) {
    if (i < range.counted_begin || i >= range.counted_end) return;
    const double u = static_cast<double>(factored_direction(row, range.gradient[i], column));
    sum += u * u;
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// What element i of the range adds to the sums of its row and its column; 0 if it is not counted.
template <class T>
__device__ double term(const FactoredRange<T>& range, int64_t i, int64_t row, int64_t column) {
  if (i < range.counted_begin || i >= range.counted_end) return 0;
  const T g = range.gradient[i];
  if (range.value == nullptr) return static_cast<double>(g) * static_cast<double>(g);
  return static_cast<double>(instability(static_cast<T>(range.rate) * range.row_factors[row], g,
                                         range.column_factors[column], range.value[i]));
}

template <class T>
__global__ void __launch_bounds__(kThreads) row_sums_kernel(const FactoredSumsTable<T> table, double* sums) {
  static_assert(kStripRows * 32 == kThreads);
  const Tile strip = table.strips[blockIdx.x];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (warp >= strip.rows) return;
  const FactoredRange<T> range = table.ranges[strip.range];
  const int64_t row = strip.row + warp;
  // May be before the range.
  const int64_t first = (range.first_row + row) * range.place.columns - range.place.begin;
  double sum = 0;
#pragma unroll 2  // with 4, nvcc 13.0 spills
  for (int64_t column = lane; column < range.place.columns; column += 32)
    sum += term(range, first + column, row, strip.first_of_columns + column);
  sum = warp_reduce(sum, Plus{});
  if (lane == 0) sums[range.first_sum + row] = sum;
}

// A thread has one column of the tile.
template <class T>
__global__ void __launch_bounds__(kThreads, kBlocks)
    tile_sums_kernel(const FactoredSumsTable<T> table, double* parts) {
  static_assert(kTileColumns == kThreads);
  const Tile tile = table.tiles[blockIdx.x];
  const FactoredRange<T> range = table.ranges[tile.range];
  const int64_t column = tile.column + threadIdx.x;
  if (column >= range.place.columns) return;
  const int64_t first = (range.first_row + tile.row) * range.place.columns - range.place.begin + column;
  double sum = 0;
  for (int32_t row = 0; row < tile.rows; ++row)
    sum += term(range, first + row * range.place.columns, tile.row + row, tile.first_of_columns + column);
  parts[int64_t{blockIdx.x} * kTileColumns + threadIdx.x] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    column_sums_kernel(const FactoredSumsTable<T> table, const double* parts, double* sums) {
  const TileColumns columns = table.columns[blockIdx.x];
  if (threadIdx.x >= columns.count) return;
  double sum = 0;
  for (int64_t tile = 0; tile < columns.num_tiles; ++tile)
    sum += parts[(columns.first_tile + tile) * kTileColumns + threadIdx.x];
  sums[columns.first_sum + threadIdx.x] = sum;
}

}  // namespace

template <class T>
void factored_step(const FactoredTable<T>& table, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(factored_step_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table);
}

template <class T>
void factored_average(const FactoredTable<T>& table, double beta, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(factored_average_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table, beta);
}

template <class T>
void factored_norms(const FactoredTable<T>& table, double* parts, double* sums, Stream stream) {
  if (table.num_chunks > 0)
    launch(factored_norms_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table, parts);
  sum_ranges(table, 1, parts, sums, stream);
}

template <class T>
void factored_sums(const FactoredSumsTable<T>& table, double* parts, double* sums, Stream stream) {
  if (table.num_strips == 0) return;  // no range has elements
  launch(row_sums_kernel<T>, grid_of(table.num_strips, "strips of rows"), kThreads, 0, stream, table, sums);
  launch(tile_sums_kernel<T>, grid_of(table.num_tiles, "tiles"), kThreads, 0, stream, table, parts);
  launch(column_sums_kernel<T>, grid_of(table.num_columns, "blocks of columns"), kThreads, 0, stream, table,
         static_cast<const double*>(parts), sums);
}

#define WEFT_INSTANTIATE(T)                                                        \
  template void factored_step(const FactoredTable<T>&, Stream);                    \
  template void factored_average(const FactoredTable<T>&, double, Stream);         \
  template void factored_norms(const FactoredTable<T>&, double*, double*, Stream); \
  template void factored_sums(const FactoredSumsTable<T>&, double*, double*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)

}  // namespace weft::kernels::cuda

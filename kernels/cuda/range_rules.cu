#include "cuda/range_rules.hpp"

#include "cuda/summed_table.cuh"

namespace weft::kernels::cuda {

namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    lion_kernel(const RuleTable<T> table, const LionFactors<T> factors, const Scaling scaling) {
  const Decision decision = decision_of(scaling);
  if (decision.skipped != 0) return;
  const T scale = static_cast<T>(decision.factor);
  for_chunk(table, [&](const RuleRange<T>& range, int64_t i) {
    lion_element(factors, range.gradient[i] * scale, range.value[i], range.first[i]);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    lars_kernel(const RuleTable<T> table, const LarsFactors<T> factors, const T scale) {
  for_chunk(table, [&](const RuleRange<T>& range, int64_t i) {
    LarsFactors<T> own = factors;
    own.rate = static_cast<T>(range.rate);
    lars_element(own, range.gradient[i] * scale, range.value[i],
                 range.first != nullptr ? range.first + i : nullptr);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    lamb_moments_kernel(const RuleTable<T> table, const LambFactors<T> factors, const T scale,
                        double* parts) {
  double values = 0, directions = 0;
  for_chunk(table, [&](const RuleRange<T>& range, int64_t i) {
    T m = range.first[i], v = range.second[i];
    lamb_moments_element(factors, range.gradient[i] * scale, m, v);
    range.first[i] = m;
    range.second[i] = v;
    if (i < range.counted_begin || i >= range.counted_end) return;
    const double w = static_cast<double>(range.value[i]);
    const double u = static_cast<double>(lamb_direction(factors, range.value[i], m, v));
    values += w * w;
    directions += u * u;
  });
  values = block_sum(values);
  directions = block_sum(directions);
  if (threadIdx.x != 0) return;
  parts[2 * int64_t{blockIdx.x}] = values;
  parts[2 * int64_t{blockIdx.x} + 1] = directions;
}

template <class T>
__global__ void __launch_bounds__(kThreads, kBlocks)
    lamb_step_kernel(const RuleTable<T> table, const LambFactors<T> factors) {
  for_chunk(table, [&](const RuleRange<T>& range, int64_t i) {
    const T w = range.value[i];
    range.value[i] =
        w - static_cast<T>(range.rate) * lamb_direction(factors, w, range.first[i], range.second[i]);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads) squares_kernel(const RuleTable<T> table, double* parts) {
  double sum = 0;
  for_chunk(table, [&](const RuleRange<T>& range, int64_t i) {
    const double x = static_cast<double>(range.value[i]);
    sum += x * x;
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

}  // namespace

template <class T>
void lion(const RuleTable<T>& table, const LionOptions& options, const Decision* decision, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(lion_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table,
         lion_factors<T>(options), Scaling{options.scale, decision});
}

template <class T>
void lars(const RuleTable<T>& table, const LarsOptions& options, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(lars_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table,
         lars_factors<T>(options), static_cast<T>(options.scale));
}

template <class T>
void lamb_moments(const RuleTable<T>& table, const LambOptions& options, double* parts, double* sums,
                  Stream stream) {
  if (table.num_chunks > 0)
    launch(lamb_moments_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table,
           lamb_factors<T>(options), static_cast<T>(options.scale), parts);
  sum_ranges(table, 2, parts, sums, stream);
}

template <class T>
void lamb_step(const RuleTable<T>& table, const LambOptions& options, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(lamb_step_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table,
         lamb_factors<T>(options));
}

template <class T>
void sums_of_squares(const RuleTable<T>& table, double* parts, double* sums, Stream stream) {
  if (table.num_chunks > 0)
    launch(squares_kernel<T>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream, table, parts);
  sum_ranges(table, 1, parts, sums, stream);
}

#define WEFT_INSTANTIATE(T)                                                                      \
  template void lion(const RuleTable<T>&, const LionOptions&, const Decision*, Stream);          \
  template void lars(const RuleTable<T>&, const LarsOptions&, Stream);                           \
  template void lamb_moments(const RuleTable<T>&, const LambOptions&, double*, double*, Stream); \
  template void lamb_step(const RuleTable<T>&, const LambOptions&, Stream);                      \
  template void sums_of_squares(const RuleTable<T>&, double*, double*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)

}  // namespace weft::kernels::cuda

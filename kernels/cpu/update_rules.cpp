#include "cpu/update_rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kGrain = 1 << 14;

// `pass` compiled for both types; `parameters` speak of T.
#define WEFT_DISPATCH_TYPES(pass, parameters_of_float, parameters_of_double, arguments) \
  WEFT_DISPATCH(pass, parameters_of_float, arguments)                                   \
  WEFT_DISPATCH(pass, parameters_of_double, arguments)

// The sum of term(i), in lanes of T that are emptied into a double before they lose what is small.
template <class T, class Term>
WEFT_INLINE double sum_of(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 16, kBlock = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    T lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    for (; i < end; ++i) lanes[0] += term(i);
    for (const T lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

template <InstructionSet, class T>
WEFT_INLINE void lion_pass_body(int64_t n, T* __restrict w, T* __restrict g, T* __restrict m,
                                const LionOptions& options) {
  const LionFactors<T> factors = lion_factors<T>(options);
  const T scale = static_cast<T>(options.scale);
  const bool scaled = options.scale != 1;
  for (int64_t i = 0; i < n; ++i) {
    T gradient = g[i];
    if (scaled) g[i] = gradient = gradient * scale;
    lion_element(factors, gradient, w[i], m[i]);
  }
}
WEFT_DISPATCH_TYPES(lion_pass, (int64_t n, float* w, float* g, float* m, const LionOptions& options),
                    (int64_t n, double* w, double* g, double* m, const LionOptions& options),
                    (n, w, g, m, options))

template <InstructionSet, class T>
WEFT_INLINE void lars_pass_body(int64_t n, T* __restrict w, T* __restrict g, T* __restrict v,
                                const LarsOptions& options) {
  const LarsFactors<T> factors = lars_factors<T>(options);
  const T scale = static_cast<T>(options.scale);
  const bool scaled = options.scale != 1;
  for (int64_t i = 0; i < n; ++i) {
    T gradient = g[i];
    if (scaled) g[i] = gradient = gradient * scale;
    lars_element(factors, gradient, w[i], v != nullptr ? v + i : nullptr);
  }
}
WEFT_DISPATCH_TYPES(lars_pass, (int64_t n, float* w, float* g, float* v, const LarsOptions& options),
                    (int64_t n, double* w, double* g, double* v, const LarsOptions& options),
                    (n, w, g, v, options))

template <InstructionSet, class T>
WEFT_INLINE void lamb_moments_pass_body(int64_t n, const T* __restrict w, T* __restrict g, T* __restrict m,
                                        T* __restrict v, const LambOptions& options, double* sums) {
  const LambFactors<T> factors = lamb_factors<T>(options);
  const T scale = static_cast<T>(options.scale);
  const bool scaled = options.scale != 1;
  constexpr int64_t kBlock = 1024;  // stays in the first cache between the two loops
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = begin + kBlock < n ? kBlock : n - begin;
    T* const gradients = g + begin;
    T* const first = m + begin;
    T* const second = v + begin;
    const T* const values = w + begin;
    for (int64_t i = 0; i < count; ++i) {
      T gradient = gradients[i];
      if (scaled) gradients[i] = gradient = gradient * scale;
      lamb_moments_element(factors, gradient, first[i], second[i]);
    }
    sums[0] += sum_of<T>(count, [&](int64_t i) { return values[i] * values[i]; });
    sums[1] += sum_of<T>(count, [&](int64_t i) {
      const T u = lamb_direction(factors, values[i], first[i], second[i]);
      return u * u;
    });
  }
}
WEFT_DISPATCH_TYPES(lamb_moments_pass,
                    (int64_t n, const float* w, float* g, float* m, float* v, const LambOptions& options,
                     double* sums),
                    (int64_t n, const double* w, double* g, double* m, double* v, const LambOptions& options,
                     double* sums),
                    (n, w, g, m, v, options, sums))

template <InstructionSet, class T>
WEFT_INLINE void lamb_step_pass_body(int64_t n, T* __restrict w, const T* __restrict m, const T* __restrict v,
                                     const LambOptions& options, double step) {
  const T rate = static_cast<T>(step);
  const LambFactors<T> factors = lamb_factors<T>(options);
  for (int64_t i = 0; i < n; ++i) w[i] -= rate * lamb_direction(factors, w[i], m[i], v[i]);
}
WEFT_DISPATCH_TYPES(lamb_step_pass,
                    (int64_t n, float* w, const float* m, const float* v, const LambOptions& options,
                     double rate),
                    (int64_t n, double* w, const double* m, const double* v, const LambOptions& options,
                     double rate),
                    (n, w, m, v, options, rate))

template <InstructionSet, class T>
WEFT_INLINE void scaled_squares_pass_body(int64_t n, const T* g, const T* c, double* sum) {
  if (c == nullptr)
    *sum = sum_of<T>(n, [&](int64_t i) { return g[i] * g[i]; });
  else
    *sum = sum_of<T>(n, [&](int64_t i) { return (g[i] * c[i]) * (g[i] * c[i]); });
}
WEFT_DISPATCH_TYPES(scaled_squares_pass, (int64_t n, const float* g, const float* c, double* sum),
                    (int64_t n, const double* g, const double* c, double* sum), (n, g, c, sum))

template <InstructionSet, class T>
WEFT_INLINE void squares_pass_body(int64_t n, const T* __restrict g, double* __restrict columns,
                                   double* sum) {
  for (int64_t i = 0; i < n; ++i) columns[i] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  *sum = sum_of<T>(n, [&](int64_t i) { return g[i] * g[i]; });
}
WEFT_DISPATCH_TYPES(squares_pass, (int64_t n, const float* g, double* columns, double* sum),
                    (int64_t n, const double* g, double* columns, double* sum), (n, g, columns, sum))

template <InstructionSet, class T>
WEFT_INLINE void factored_average_pass_body(int64_t n, T* __restrict m, const T* __restrict g,
                                            const T* __restrict c, T rate, T beta) {
  for (int64_t i = 0; i < n; ++i) factored_average_element(rate, beta, g[i], c[i], m[i]);
}
WEFT_DISPATCH_TYPES(factored_average_pass,
                    (int64_t n, float* m, const float* g, const float* c, float rate, float beta),
                    (int64_t n, double* m, const double* g, const double* c, double rate, double beta),
                    (n, m, g, c, rate, beta))

template <InstructionSet, class T>
WEFT_INLINE void instabilities_pass_body(int64_t n, const T* __restrict m, const T* __restrict g,
                                         const T* __restrict c, T rate, double* __restrict columns,
                                         double* sum) {
  const auto term = [&](int64_t i) { return instability(rate, g[i], c[i], m[i]); };
  for (int64_t i = 0; i < n; ++i) columns[i] += static_cast<double>(term(i));
  *sum = sum_of<T>(n, term);
}
WEFT_DISPATCH_TYPES(instabilities_pass,
                    (int64_t n, const float* m, const float* g, const float* c, float rate, double* columns,
                     double* sum),
                    (int64_t n, const double* m, const double* g, const double* c, double rate,
                     double* columns, double* sum),
                    (n, m, g, c, rate, columns, sum))

template <InstructionSet, class T>
WEFT_INLINE void factored_step_pass_body(int64_t n, T* __restrict w, const T* __restrict g,
                                         const T* __restrict c, T rate, T keep) {
  for (int64_t i = 0; i < n; ++i) factored_step_element(rate, keep, g[i], c[i], w[i]);
}
WEFT_DISPATCH_TYPES(factored_step_pass,
                    (int64_t n, float* w, const float* g, const float* c, float rate, float keep),
                    (int64_t n, double* w, const double* g, const double* c, double rate, double keep),
                    (n, w, g, c, rate, keep))

// Adds up pass(first, last, sums) over ranges, in the order of the ranges whatever thread is first.
template <size_t N, class Pass>
std::array<double, N> sum_in_parallel(int64_t n, const Pass& pass) {
  const int64_t wanted = (n + kGrain - 1) / kGrain,
                parts = std::max<int64_t>(1, std::min(wanted, parallel_parts()));
  std::vector<std::array<double, N>> sums(static_cast<size_t>(parts), std::array<double, N>{});
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      pass(n * part / parts, n * (part + 1) / parts, sums[static_cast<size_t>(part)].data());
  });
  std::array<double, N> total{};
  for (const auto& part : sums)
    for (size_t i = 0; i < N; ++i) total[i] += part[i];
  return total;
}

}  // namespace

template <class T>
void lion(int64_t n, T* w, T* g, T* m, const LionOptions& options) {
  parallel_for(0, n, kGrain, [&](int64_t first, int64_t last) {
    lion_pass(last - first, w + first, g + first, m + first, options);
  });
}

template <class T>
void lars(int64_t n, T* w, T* g, T* v, const LarsOptions& options) {
  parallel_for(0, n, kGrain, [&](int64_t first, int64_t last) {
    lars_pass(last - first, w + first, g + first, v != nullptr ? v + first : nullptr, options);
  });
}

template <class T>
void lamb_moments(int64_t n, const T* w, T* g, T* m, T* v, const LambOptions& options, double* sums) {
  const auto total = sum_in_parallel<2>(n, [&](int64_t first, int64_t last, double* part) {
    lamb_moments_pass(last - first, w + first, g + first, m + first, v + first, options, part);
  });
  sums[0] += total[0];
  sums[1] += total[1];
}

template <class T>
void lamb_step(int64_t n, T* w, const T* m, const T* v, const LambOptions& options, double rate) {
  parallel_for(0, n, kGrain, [&](int64_t first, int64_t last) {
    lamb_step_pass(last - first, w + first, m + first, v + first, options, rate);
  });
}

template <class T>
double sum_of_squares(int64_t n, const T* x) {
  const T* const none = nullptr;
  return sum_in_parallel<1>(n, [&](int64_t first, int64_t last, double* part) {
    scaled_squares_pass(last - first, x + first, none, part);
  })[0];
}

template <class T>
double squares(int64_t n, const T* g, double* columns) {
  double sum = 0;
  squares_pass(n, g, columns, &sum);
  return sum;
}

template <class T>
double scaled_squares(int64_t n, const T* g, const T* c) {
  double sum = 0;
  scaled_squares_pass(n, g, c, &sum);
  return sum;
}

template <class T>
void factored_average(int64_t n, T* m, const T* g, const T* c, T rate, T beta) {
  factored_average_pass(n, m, g, c, rate, beta);
}

template <class T>
double instabilities(int64_t n, const T* m, const T* g, const T* c, T rate, double* columns) {
  double sum = 0;
  instabilities_pass(n, m, g, c, rate, columns, &sum);
  return sum;
}

template <class T>
void factored_step(int64_t n, T* w, const T* g, const T* c, T rate, T keep) {
  factored_step_pass(n, w, g, c, rate, keep);
}

#define WEFT_INSTANTIATE(T)                                                               \
  template void lion(int64_t, T*, T*, T*, const LionOptions&);                            \
  template void lars(int64_t, T*, T*, T*, const LarsOptions&);                            \
  template void lamb_moments(int64_t, const T*, T*, T*, T*, const LambOptions&, double*); \
  template void lamb_step(int64_t, T*, const T*, const T*, const LambOptions&, double);   \
  template double sum_of_squares(int64_t, const T*);                                      \
  template double squares(int64_t, const T*, double*);                                    \
  template double scaled_squares(int64_t, const T*, const T*);                            \
  template void factored_average(int64_t, T*, const T*, const T*, T, T);                  \
  template double instabilities(int64_t, const T*, const T*, const T*, T, double*);       \
  template void factored_step(int64_t, T*, const T*, const T*, T, T);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)

}  // namespace weft::kernels

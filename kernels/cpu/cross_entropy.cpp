#include "cpu/cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 15;

int64_t grain_of(int64_t classes) {
  return std::max<int64_t>(1, kValuesOfATask / std::max<int64_t>(1, classes));
}

bool has_label(const CrossEntropyRows& shape, int64_t row) {
  return shape.labels[row] >= 0 && shape.labels[row] < shape.classes;
}
bool counts(const CrossEntropyRows& shape, int64_t row) {
  return has_label(shape, row) || shape.labels[row] == kElsewhere;
}

// Subtracting the largest first keeps exp in range.
template <InstructionSet>
WEFT_INLINE void row_normaliser_body(int64_t classes, const float* logits, RowNormaliser<float>* result) {
  const float infinity = __builtin_inff();
  const Floats zero = {};
  const int64_t whole = classes / kLanes * kLanes;
  Floats most = zero - infinity, x, y;
  for (int64_t v = 0; v < whole; v += kLanes) {
    load(x, logits + v);
    maximum(most, x);
  }
  load_part(x, logits + whole, classes - whole, -infinity);
  maximum(most, x);
  const float peak = largest(most);
  Floats sum = zero, other = zero;
  int64_t v = 0;
  for (; v + 2 * kLanes <= whole; v += 2 * kLanes) {  // two chains of additions
    load(x, logits + v);
    load(y, logits + v + kLanes);
    x -= peak;
    y -= peak;
    exponential(x);
    exponential(y);
    sum += x;
    other += y;
  }
  for (; v < classes; v += kLanes) {
    load_part(x, logits + v, classes - v, -infinity);
    x -= peak;
    exponential(x);
    sum += x;
  }
  sum += other;
  *result = {peak, std::log(total(sum))};
}
WEFT_DISPATCH(row_normaliser, (int64_t classes, const float* logits, RowNormaliser<float>* result),
              (classes, logits, result))

template <InstructionSet>
WEFT_INLINE void scaled_softmax_body(int64_t classes, const float* logits,
                                     const RowNormaliser<float>& normaliser, float scale, float* gradient) {
  const int64_t whole = classes / kLanes * kLanes;
  Floats x;
  for (int64_t v = 0; v < whole; v += kLanes) {
    load(x, logits + v);
    x = x - normaliser.peak - normaliser.log_sum;
    exponential(x);
    x *= scale;
    store(x, gradient + v);
  }
  if (whole == classes) return;
  load_part(x, logits + whole, classes - whole, normaliser.peak);
  x = x - normaliser.peak - normaliser.log_sum;
  exponential(x);
  x *= scale;
  store_part(x, gradient + whole, classes - whole);
}
WEFT_DISPATCH(scaled_softmax,
              (int64_t classes, const float* logits, const RowNormaliser<float>& normaliser, float scale,
               float* gradient),
              (classes, logits, normaliser, scale, gradient))

RowNormaliser<float> normaliser_of(int64_t classes, const float* logits) {
  RowNormaliser<float> result;
  row_normaliser(classes, logits, &result);
  return result;
}
RowNormaliser<double> normaliser_of(int64_t classes, const double* logits) {
  return normaliser_plain(classes, logits);
}

void gradient_of(int64_t classes, const float* logits, int64_t label, RowNormaliser<float> normaliser,
                 float scale, float* gradient) {
  scaled_softmax(classes, logits, normaliser, scale, gradient);
  if (label >= 0) gradient[label] -= scale;
}
void gradient_of(int64_t classes, const double* logits, int64_t label, RowNormaliser<double> normaliser,
                 double scale, double* gradient) {
  cross_entropy_gradient_plain(classes, logits, label, normaliser, scale, gradient);
}

}  // namespace

template <typename T>
RowNormaliser<T> normaliser_plain(int64_t classes, const T* logits) {
  T peak = logits[0];
  for (int64_t v = 1; v < classes; ++v) peak = std::max(peak, logits[v]);
  T sum = 0;
  for (int64_t v = 0; v < classes; ++v) sum += std::exp(logits[v] - peak);
  return {peak, std::log(sum)};
}

template <typename T>
void cross_entropy_gradient_plain(int64_t classes, const T* logits, int64_t label,
                                  RowNormaliser<T> normaliser, T scale, T* gradient) {
  for (int64_t v = 0; v < classes; ++v) {
    gradient[v] = scale * (std::exp(logits[v] - normaliser.peak - normaliser.log_sum) - (v == label ? 1 : 0));
  }
}

template <typename T>
double cross_entropy_forward(const CrossEntropyRows& shape, const T* logits, RowNormaliser<T>* normalisers) {
  parallel_for(0, shape.rows, grain_of(shape.classes), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      if (counts(shape, row)) normalisers[row] = normaliser_of(shape.classes, logits + row * shape.classes);
    }
  });
  double sum = 0;
  for (int64_t row = 0; row < shape.rows; ++row) {
    if (!has_label(shape, row)) continue;
    const double logit = logits[row * shape.classes + shape.labels[row]];
    sum += normalisers[row].peak - logit + normalisers[row].log_sum;
  }
  return sum;
}

template <typename T>
void cross_entropy_backward(const CrossEntropyRows& shape, const T* logits,
                            const RowNormaliser<T>* normalisers, T scale, T* gradient) {
  parallel_for(0, shape.rows, grain_of(shape.classes), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      T* out = gradient + row * shape.classes;
      if (counts(shape, row)) {
        gradient_of(shape.classes, logits + row * shape.classes, shape.labels[row], normalisers[row], scale,
                    out);
      } else {
        std::fill_n(out, shape.classes, T(0));
      }
    }
  });
}

template <typename T>
double cross_entropy_with_gradient(const CrossEntropyRows& shape, T* logits, T scale) {
  std::vector<double> losses(static_cast<size_t>(shape.rows));
  parallel_for(0, shape.rows, grain_of(shape.classes), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      T* const of_row = logits + row * shape.classes;
      if (!counts(shape, row)) {
        std::fill_n(of_row, shape.classes, T(0));
        continue;
      }
      const RowNormaliser<T> normaliser = normaliser_of(shape.classes, of_row);
      if (has_label(shape, row)) {
        const double logit = of_row[shape.labels[row]];
        losses[static_cast<size_t>(row)] = normaliser.peak - logit + normaliser.log_sum;
      }
      gradient_of(shape.classes, of_row, shape.labels[row], normaliser, scale, of_row);
    }
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

#define WEFT_INSTANTIATE(T)                                                                              \
  template double cross_entropy_forward<T>(const CrossEntropyRows&, const T*, RowNormaliser<T>*);        \
  template void cross_entropy_backward<T>(const CrossEntropyRows&, const T*, const RowNormaliser<T>*, T, \
                                          T*);                                                           \
  template double cross_entropy_with_gradient<T>(const CrossEntropyRows&, T*, T);                        \
  template RowNormaliser<T> normaliser_plain<T>(int64_t, const T*);                                      \
  template void cross_entropy_gradient_plain<T>(int64_t, const T*, int64_t, RowNormaliser<T>, T, T*);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)

}  // namespace weft::kernels

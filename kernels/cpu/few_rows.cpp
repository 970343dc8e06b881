#include "cpu/few_rows.hpp"

#include <algorithm>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 16;
// Rows of w that stay in the first cache until all rows of x have used them.
constexpr int64_t kOutputsAtOnce = 16;
constexpr int64_t kInputsAtOnce = 8;  // rows of a transposed w that are added in one pass over the outputs

// What one call computes: outputs `first` to `last`.
struct Product {
  int64_t rows, inputs, outputs;
  const float *x, *w;
  int64_t distance;  // between two rows of w
  const float* bias;
  float* y;
};

// The sum of all lanes by halves, which is shorter than one lane after the other.
WEFT_INLINE float sum_of(const Floats& x) {
  using Half = float __attribute__((vector_size(32)));
  using Quarter = float __attribute__((vector_size(16)));
  const Half half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  const Quarter quarter =
      __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// Computes kRows elements of y, each with the same additions whatever kRows is.
template <int64_t kRows>
WEFT_INLINE void dot(const Product& p, int64_t row, int64_t output) {
  const float* const x = p.x + row * p.inputs;
  const float* const w = p.w + output * p.distance;
  Floats sums[kRows] = {}, a, b;
  int64_t i = 0;
  for (; i + kLanes <= p.inputs; i += kLanes) {
    load(b, w + i);
#pragma unroll
    for (int64_t r = 0; r < kRows; ++r) {
      load(a, x + r * p.inputs + i);
      sums[r] += a * b;
    }
  }
  for (int64_t r = 0; r < kRows; ++r) {
    float sum = sum_of(sums[r]);
    for (int64_t rest = i; rest < p.inputs; ++rest) sum += x[r * p.inputs + rest] * w[rest];
    p.y[(row + r) * p.outputs + output] = sum + (p.bias == nullptr ? 0 : p.bias[output]);
  }
}

template <int64_t kRows>
WEFT_INLINE void dots(const Product& p, int64_t row, int64_t first, int64_t last) {
  for (int64_t output = first; output < last; ++output) dot<kRows>(p, row, output);
}

template <InstructionSet>
WEFT_INLINE void by_outputs_body(const Product& p, int64_t first, int64_t last) {
  for (int64_t begin = first; begin < last; begin += kOutputsAtOnce) {
    const int64_t end = std::min(begin + kOutputsAtOnce, last);
    int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) dots<4>(p, row, begin, end);
    for (; row + 2 <= p.rows; row += 2) dots<2>(p, row, begin, end);
    for (; row < p.rows; ++row) dots<1>(p, row, begin, end);
  }
}
WEFT_DISPATCH(by_outputs, (const Product& p, int64_t first, int64_t last), (p, first, last))

// Adds `count` rows of w, times their inputs, to kRows rows of y.
template <int64_t kRows>
WEFT_INLINE void add_rows(const Product& p, int64_t row, int64_t input, int64_t count, int64_t first,
                          int64_t last) {
  const float* const x = p.x + row * p.inputs + input;
  const float* const w = p.w + input * p.distance;
  float* const y = p.y + row * p.outputs;
  int64_t output = first;
  for (; output + kLanes <= last; output += kLanes) {
    Floats sums[kRows], b;
#pragma unroll
    for (int64_t r = 0; r < kRows; ++r) load(sums[r], y + r * p.outputs + output);
    for (int64_t i = 0; i < count; ++i) {
      load(b, w + i * p.distance + output);
#pragma unroll
      for (int64_t r = 0; r < kRows; ++r) sums[r] += b * x[r * p.inputs + i];
    }
#pragma unroll
    for (int64_t r = 0; r < kRows; ++r) store(sums[r], y + r * p.outputs + output);
  }
  for (; output < last; ++output)
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < count; ++i)
        y[r * p.outputs + output] += w[i * p.distance + output] * x[r * p.inputs + i];
}

template <InstructionSet>
WEFT_INLINE void by_inputs_body(const Product& p, int64_t first, int64_t last) {
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t output = first; output < last; ++output)
      p.y[row * p.outputs + output] = p.bias == nullptr ? 0 : p.bias[output];
  for (int64_t input = 0; input < p.inputs; input += kInputsAtOnce) {
    const int64_t count = std::min(kInputsAtOnce, p.inputs - input);
    int64_t row = 0;
    for (; row + 4 <= p.rows; row += 4) add_rows<4>(p, row, input, count, first, last);
    for (; row < p.rows; ++row) add_rows<1>(p, row, input, count, first, last);
  }
}
WEFT_DISPATCH(by_inputs, (const Product& p, int64_t first, int64_t last), (p, first, last))

}  // namespace

void few_rows_product(int64_t rows, int64_t inputs, int64_t outputs, const float* x, const float* w,
                      int64_t of_output, int64_t of_input, const float* bias, float* y) {
  const bool outputs_are_rows = of_input == 1;
  const Product product = {rows, inputs, outputs, x, w, outputs_are_rows ? of_output : of_input, bias, y};
  parallel_for(0, outputs, std::max<int64_t>(kLanes, kValuesOfATask / std::max<int64_t>(inputs, 1)),
               [&](int64_t first, int64_t last) {
                 outputs_are_rows ? by_outputs(product, first, last) : by_inputs(product, first, last);
               });
}

}  // namespace weft::kernels

#include "cpu/dropout.hpp"

#include <algorithm>

#include "cpu/drawn_mask.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

template <InstructionSet kSet>
WEFT_INLINE void draw_body(const DropoutLanes& lanes, int64_t count, uint32_t below, uint8_t* values) {
  draw_mask<kSet>(lanes, count, below, values);
}
WEFT_DISPATCH(draw, (const DropoutLanes& lanes, int64_t count, uint32_t below, uint8_t* values),
              (lanes, count, below, values))

template <InstructionSet, typename T>
WEFT_INLINE void apply_body(int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale,
                            T* y) {
  const int64_t whole = count / kLanes * kLanes;
  Lanes<T> value, kept, added;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    load_mask<T>(kept, mask + i);
    value *= kept * scale;
    if (residual != nullptr) {
      load(added, residual + i);
      value += added;
    }
    store(value, y + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const Exact<T> one = static_cast<Exact<T>>(x[i]) * (static_cast<Exact<T>>(mask[i]) * scale);
    y[i] = static_cast<T>(residual ? static_cast<Exact<T>>(residual[i]) + one : one);
  }
}
#define WEFT_DROPOUT(T)                                                                                    \
  WEFT_DISPATCH(apply,                                                                                     \
                (int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale, T* y), \
                (count, residual, x, mask, scale, y))
WEFT_DROPOUT(float)
WEFT_DROPOUT(double)
WEFT_DROPOUT(c10::BFloat16)
WEFT_DROPOUT(c10::Half)

}  // namespace

void bernoulli(int64_t count, uint64_t seed, double probability, uint8_t* values) {
  const uint32_t below = dropout_threshold(probability);
  const int64_t blocks = (count + kValuesOfADropoutBlock - 1) / kValuesOfADropoutBlock;
  parallel_for(0, blocks, kValuesOfATask / kValuesOfADropoutBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kValuesOfADropoutBlock;
      draw({seed, block}, std::min(kValuesOfADropoutBlock, count - begin), below, values + begin);
    }
  });
}

template <typename T>
void dropout(int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale, T* y) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    apply(last - first, residual ? residual + first : nullptr, x + first, mask + first, scale, y + first);
  });
}
template void dropout(int64_t, const float*, const float*, const uint8_t*, float, float*);
template void dropout(int64_t, const double*, const double*, const uint8_t*, double, double*);
template void dropout(int64_t, const c10::BFloat16*, const c10::BFloat16*, const uint8_t*, float,
                      c10::BFloat16*);
template void dropout(int64_t, const c10::Half*, const c10::Half*, const uint8_t*, float, c10::Half*);

}  // namespace weft::kernels

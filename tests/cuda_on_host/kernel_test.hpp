// Memory, numbers and orders for tests of kernels.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#ifdef WEFT_ON_GPU
#include "managed_memory.hpp"
#else
#include "cuda_on_host.hpp"
#include "guarded_memory.hpp"
#endif

namespace weft::testing {

#ifdef WEFT_ON_GPU
using Memory = on_gpu::ManagedMemory;
using on_gpu::synchronize;
#else
using Memory = on_host::GuardedMemory;
inline void synchronize() {}
#endif

template <class T>
double exact(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

// Half a unit in the last place, relative.
template <class T>
constexpr double kRounding = std::is_same_v<T, c10::BFloat16> ? 1.0 / 256
                             : std::is_same_v<T, c10::Half>   ? 1.0 / 2048
                                                              : 1.0 / (1 << 24);

// Memory of a kernel: `count` elements that begin `shift` elements past a multiple of 16 bytes, NaN at first.
// An access outside ends the test.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t count, int64_t shift = 0)
      : memory_(static_cast<size_t>(count) * sizeof(T), static_cast<size_t>(shift) * sizeof(T)),
        count_(count) {}
  template <class U>
  explicit Buffer(const std::vector<U>& values, int64_t shift = 0)
      : Buffer(static_cast<int64_t>(values.size()), shift) {
    for (size_t i = 0; i < values.size(); ++i) data()[i] = static_cast<T>(values[i]);
  }
  ~Buffer() { EXPECT_EQ(damage(), ""); }
  std::string damage() const { return memory_.damage(); }

  T* data() { return static_cast<T*>(memory_.data()); }
  // Waits for the kernels, as values() does.
  T& operator[](int64_t i) {
    synchronize();
    return data()[i];
  }
  int64_t size() const { return count_; }
  std::vector<double> values() {
    synchronize();
    std::vector<double> result;
    for (int64_t i = 0; i < count_; ++i) result.push_back(exact(data()[i]));
    return result;
  }

 private:
  Memory memory_;
  int64_t count_;
};

inline std::vector<float> normal(int64_t count, uint32_t seed, float deviation = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = distribution(engine);
  return values;
}

// The numbers as T holds them.
template <class T>
std::vector<double> rounded(const std::vector<float>& values) {
  std::vector<double> result;
  for (const float value : values) result.push_back(exact(static_cast<T>(value)));
  return result;
}

using Results = std::vector<std::vector<double>>;

// Expects the same bits, those of NaN too, and names the first element that differs.
inline void expect_same(const Results& got, const Results& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].size(), wanted[r].size()) << what << ", result " << r;
    for (size_t i = 0; i < got[r].size(); ++i)
      ASSERT_EQ(std::bit_cast<uint64_t>(got[r][i]), std::bit_cast<uint64_t>(wanted[r][i]))
          << what << ", result " << r << ", element " << i << ": " << got[r][i] << " and " << wanted[r][i];
  }
}

// What run() returns, which must have the same bits in whatever order threads and blocks run. A GPU chooses
// the order itself.
template <class Run>
Results in_every_order(const Run& run) {
#ifdef WEFT_ON_GPU
  const Results first = run();
  expect_same(run(), first, "the second run");
  expect_same(run(), first, "the third run");
  return first;
#else
  using on_host::Order;
  const auto in = [&](Order order) {
    on_host::settings().order = order;
    Results results = run();
    on_host::settings().order = Order::kForward;
    return results;
  };
  const Results forward = in(Order::kForward);
  expect_same(in(Order::kReverse), forward, "threads run in reverse");
  expect_same(in(Order::kShuffled), forward, "threads run shuffled");
  return forward;
#endif
}

// `what` has the index for the message.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, double relative,
                        double absolute, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], relative * std::abs(wanted[i]) + absolute) << what << ", element " << i;
}

// Calls test(T()) for each type of numbers.
template <class Test>
void for_types(const Test& test) {
  {
    SCOPED_TRACE("fp32");
    test(float());
  }
  {
    SCOPED_TRACE("bf16");
    test(c10::BFloat16());
  }
  {
    SCOPED_TRACE("fp16");
    test(c10::Half());
  }
}

}  // namespace weft::testing

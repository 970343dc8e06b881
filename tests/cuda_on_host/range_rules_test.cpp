#include "cuda/range_rules.hpp"

#include <memory>

#include "cpu/update_rules.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

using namespace kernels;
using cuda::Chunk;
using cuda::RuleRange;
using cuda::RuleTable;

const std::vector<int64_t> kLengths = {1, 1000, 8192, 0, 8205};

// Ranges of one rule. Of range r, the elements [r, length - r) count.
template <class T>
struct Ranges {
  explicit Ranges(bool with_states = true) : chunks(cuda::chunks_of(kLengths)) {
    std::vector<RuleRange<T>> table;
    int64_t first_chunk = 0;
    for (size_t r = 0; r < kLengths.size(); ++r) {
      const int64_t n = kLengths[r], margin = std::min<int64_t>(static_cast<int64_t>(r), n / 2);
      const auto seed = static_cast<uint32_t>(10 * r);
      const auto made = [&](uint32_t which, bool squared) {
        std::vector<float> values = normal(n, seed + which);
        for (float& value : values) value = squared ? value * value : value;
        return std::make_unique<Buffer<T>>(values, static_cast<int64_t>(r % 2));
      };
      values.push_back(made(0, false));
      gradients.push_back(made(1, false));
      first.push_back(made(2, false));
      second.push_back(made(3, true));
      const int64_t count = (n + cuda::kChunkElements - 1) / cuda::kChunkElements;
      table.push_back({values[r]->data(), gradients[r]->data(), with_states ? first[r]->data() : nullptr,
                       second[r]->data(), rate(r), margin, n - margin, first_chunk, count});
      first_chunk += count;
    }
    on_device = std::make_unique<Buffer<RuleRange<T>>>(table);
  }
  static double rate(size_t r) { return 0.01 * static_cast<double>(r + 1); }
  RuleTable<T> table() {
    return {on_device->data(), chunks.data(), static_cast<int64_t>(kLengths.size()), chunks.size()};
  }
  Results results() {
    Results results;
    for (size_t r = 0; r < kLengths.size(); ++r)
      for (const auto* buffers : {&values, &first, &second}) results.push_back((*buffers)[r]->values());
    return results;
  }
  std::vector<std::unique_ptr<Buffer<T>>> values, gradients, first, second;
  std::unique_ptr<Buffer<RuleRange<T>>> on_device;
  Buffer<Chunk> chunks;
};

template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-14;

template <class T>
void expect_near_cpu(const Results& found, Ranges<T>& cpu) {
  const Results wanted = cpu.results();
  for (size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(found[i], wanted[i], kTolerance<T>, kTolerance<T>, "value, first and second state by range");
  }
}

template <class Test>
void for_exact_types(const Test& test) {
  test(float());
  test(double());
}

TEST(RangeRulesOnHost, LionIsThatOfTheCpu) {
  const LionOptions options{0.01, 0.9, 0.99, 0.1, 0.25};
  for_exact_types([&]<class T>(T) {
    const auto run = [&](double factor, const Decision* decision) {
      return in_every_order([&] {
        Ranges<T> ranges;
        LionOptions own = options;
        own.scale = factor;
        cuda::lion(ranges.table(), own, decision, nullptr);
        return ranges.results();
      });
    };
    const Results found = run(options.scale, nullptr);
    Buffer<Decision> decisions(std::vector<Decision>{{1, options.scale, 0}, {1, options.scale, 1}});
    expect_same(run(100, decisions.data()), found, "the device's factor");
    expect_same(run(100, decisions.data() + 1), Ranges<T>().results(), "a skipped update");
    Ranges<T> cpu;
    for (size_t r = 0; r < kLengths.size(); ++r)
      kernels::lion<T>(kLengths[r], cpu.values[r]->data(), cpu.gradients[r]->data(), cpu.first[r]->data(),
                       options);
    expect_near_cpu(found, cpu);
  });
}

TEST(RangeRulesOnHost, LarsTakesARateForEachRange) {
  for (const bool momentum : {true, false}) {
    LarsOptions options{-1, momentum ? 0.9 : 0.0, 0.1, 0.25};
    for_exact_types([&]<class T>(T) {
      const Results found = in_every_order([&] {
        Ranges<T> ranges(momentum);
        cuda::lars(ranges.table(), options, nullptr);
        return ranges.results();
      });
      Ranges<T> cpu;
      for (size_t r = 0; r < kLengths.size(); ++r) {
        LarsOptions own = options;
        own.rate = Ranges<T>::rate(r);
        kernels::lars<T>(kLengths[r], cpu.values[r]->data(), cpu.gradients[r]->data(),
                         momentum ? cpu.first[r]->data() : nullptr, own);
      }
      expect_near_cpu(found, cpu);
    });
  }
}

TEST(RangeRulesOnHost, LambSumsTheCountedElementsOfEachRange) {
  const LambOptions options{0.9, 0.99, 1e-6, 0.1, 0.1, 0.01, 0.25};
  const auto ranges = static_cast<int64_t>(kLengths.size());
  for_exact_types([&]<class T>(T) {
    const Results found = in_every_order([&] {
      Ranges<T> of;
      Buffer<double> parts(2 * of.chunks.size()), sums(2 * ranges);
      cuda::lamb_moments(of.table(), options, parts.data(), sums.data(), nullptr);
      cuda::lamb_step(of.table(), options, nullptr);
      Results results = of.results();
      results.push_back(sums.values());
      return results;
    });
    Ranges<T> cpu;
    std::vector<double> sums(static_cast<size_t>(2 * ranges));
    for (size_t r = 0; r < kLengths.size(); ++r) {
      const int64_t margin = std::min<int64_t>(static_cast<int64_t>(r), kLengths[r] / 2);
      double others[2] = {};
      const auto pass = [&](int64_t from, int64_t to, double* to_sums) {
        kernels::lamb_moments<T>(to - from, cpu.values[r]->data() + from, cpu.gradients[r]->data() + from,
                                 cpu.first[r]->data() + from, cpu.second[r]->data() + from, options, to_sums);
      };
      pass(0, margin, others);
      pass(margin, kLengths[r] - margin, &sums[2 * r]);
      pass(kLengths[r] - margin, kLengths[r], others);
      kernels::lamb_step<T>(kLengths[r], cpu.values[r]->data(), cpu.first[r]->data(), cpu.second[r]->data(),
                            options, Ranges<T>::rate(r));
    }
    expect_near_cpu(found, cpu);
    expect_near(found.back(), sums, 1e-5, 0, "sum");
  });
}

TEST(RangeRulesOnHost, SumsOfSquaresAreZeroForARangeWithoutElements) {
  for_exact_types([&]<class T>(T) {
    const Results found = in_every_order([&] {
      Ranges<T> of;
      Buffer<double> parts(of.chunks.size()), sums(static_cast<int64_t>(kLengths.size()));
      cuda::sums_of_squares(of.table(), parts.data(), sums.data(), nullptr);
      return Results{sums.values()};
    });
    Ranges<T> of;
    for (size_t r = 0; r < kLengths.size(); ++r) {
      double wanted = 0;
      for (const double x : of.values[r]->values()) wanted += x * x;
      EXPECT_NEAR(found[0][r], wanted, 1e-13 * wanted) << r;
    }
  });
}

}  // namespace
}  // namespace weft::testing

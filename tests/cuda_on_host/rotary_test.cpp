#include "cuda/rotary.hpp"

#include "cpu/rotary.hpp"
#include "kernel_test.hpp"

namespace weft::testing {
namespace {

namespace cuda = kernels::cuda;
using kernels::RotaryShape;

struct Input {
  explicit Input(const RotaryShape& shape)
      : x(normal(shape.batch * shape.positions * shape.heads * shape.size, 1)),
        cosine(normal(rows_of(shape) * shape.half(), 2)),
        sine(normal(rows_of(shape) * shape.half(), 3)) {}
  static int64_t rows_of(const RotaryShape& shape) {
    return shape.table_for_all ? shape.positions : shape.batch * shape.positions;
  }
  std::vector<float> x, cosine, sine;
};

template <class T>
std::vector<double> run(const RotaryShape& shape, const Input& input, bool back, int64_t shift,
                        bool in_place) {
  Buffer<T> x(input.x, shift), cosine(input.cosine, 2 * shift), sine(input.sine, shift),
      y(static_cast<int64_t>(input.x.size()), 3 * shift);
  cuda::rotate(shape, x.data(), cosine.data(), sine.data(), back, in_place ? x.data() : y.data(), nullptr);
  return in_place ? x.values() : y.values();
}

template <class T>
void expect_reference(const RotaryShape& shape, bool back, int64_t shift, bool in_place) {
  SCOPED_TRACE(std::to_string(shape.batch) + " x " + std::to_string(shape.positions) + " x " +
               std::to_string(shape.heads) + " x " + std::to_string(shape.size) + ", still " +
               std::to_string(shape.still));
  const Input input(shape);
  const std::vector<double> y =
      in_every_order([&] { return Results{run<T>(shape, input, back, shift, in_place)}; })[0];
  const std::vector<double> x = rounded<T>(input.x), cosine = rounded<T>(input.cosine),
                            sine = rounded<T>(input.sine);
  const int64_t half = shape.half();
  for (int64_t head = 0; head < shape.batch * shape.positions * shape.heads; ++head) {
    const int64_t position = head / shape.heads;
    const int64_t row = shape.table_for_all ? position % shape.positions : position;
    for (int64_t i = 0; i < half; ++i) {
      const auto first = static_cast<size_t>(head * shape.size + i),
                 second = first + static_cast<size_t>(half), at = static_cast<size_t>(row * half + i);
      const double a = x[first], b = x[second], c = cosine[at], s = back ? -sine[at] : sine[at];
      const auto near = [&](double got, double one, double other) {
        ASSERT_NEAR(got, one + other,
                    kRounding<T> * std::abs(one + other) + 2e-7 * (std::abs(one) + std::abs(other)) + 1e-7)
            << "head " << head << ", channel " << i;
      };
      near(y[first], a * c, -b * s);
      near(y[second], b * c, a * s);
    }
    for (int64_t i = 2 * half; i < shape.size; ++i)
      ASSERT_EQ(y[static_cast<size_t>(head * shape.size + i)], x[static_cast<size_t>(head * shape.size + i)]);
  }
}

TEST(RotaryOnHost, TurnsBothHalves) {
  for_types([]<class T>(T) {
    expect_reference<T>({1, 1, 1, 2, false}, false, 0, false);
    expect_reference<T>({2, 5, 3, 64, true}, false, 0, true);
    expect_reference<T>({2, 7, 4, 128, false}, true, 0, false);
    expect_reference<T>({3, 3, 2, 16, true}, true, 1, true);    // aligned rows in the wrong place
    expect_reference<T>({2, 9, 3, 22, true}, false, 0, false);  // halves without whole vectors
    expect_reference<T>({1, 6, 5, 40, false}, true, 0, true);
  });
}

TEST(RotaryOnHost, CopiesTheChannelsThatDoNotTurn) {
  for_types([]<class T>(T) {
    expect_reference<T>({2, 5, 3, 64, true, 32}, false, 0, true);
    expect_reference<T>({2, 7, 4, 128, false, 96}, true, 0, false);
    expect_reference<T>({3, 3, 2, 32, true, 16}, true, 1, false);   // aligned rows in the wrong place
    expect_reference<T>({2, 9, 3, 22, true, 12}, false, 0, false);  // no whole vectors
    expect_reference<T>({1, 6, 5, 40, false, 24}, true, 0, true);
    expect_reference<T>({2, 3, 2, 7, true, 3}, false, 0, false);
  });
}

TEST(RotaryOnHost, AgreesWithTheCpu) {
  for (const RotaryShape& shape : {RotaryShape{2, 5, 3, 64, true}, RotaryShape{2, 4, 3, 42, false},
                                   RotaryShape{2, 5, 3, 64, true, 32}, RotaryShape{2, 4, 3, 21, false, 5}})
    for (const bool back : {false, true}) {
      const Input input(shape);
      Buffer<float> y(static_cast<int64_t>(input.x.size()));
      kernels::rotate(shape, input.x.data(), input.cosine.data(), input.sine.data(), back, y.data());
      expect_near(run<float>(shape, input, back, 0, false), y.values(), 1e-6, 1e-6, "y");
    }
}

TEST(RotaryOnHost, DoesNothingWithoutElements) {
  Buffer<float> kept(std::vector<float>{7});
  float* const none = kept.data();
  for (const RotaryShape& shape : {RotaryShape{0, 3, 2, 8, true}, RotaryShape{2, 0, 2, 8, true},
                                   RotaryShape{2, 3, 0, 8, false}, RotaryShape{2, 3, 2, 0, false}})
    cuda::rotate(shape, none, none, none, false, none, nullptr);
  EXPECT_EQ(kept[0], 7);
}

}  // namespace
}  // namespace weft::testing

#include "box/cover.hpp"

#include <bit>
#include <random>

namespace weft {

namespace {

constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;

uint64_t plus(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

uint64_t times(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return plus(static_cast<uint64_t>(product) & kPrime, static_cast<uint64_t>(product >> 61));
}

struct Powers {
  uint64_t power;  // base^count
  uint64_t sum;    // 1 + base + ... + base^(count - 1)
};

// By doubling, from the first bit of `count` on.
Powers powers(uint64_t base, uint64_t count) {
  Powers result{1, 0};
  for (int bit = std::bit_width(count); bit-- > 0;) {
    result = {times(result.power, result.power), times(result.sum, plus(1, result.power))};
    if ((count >> bit & 1) != 0) result = {times(result.power, base), plus(times(result.sum, base), 1)};
  }
  return result;
}

uint64_t random_point() {
  static const uint64_t point = [] {
    std::random_device device;
    const uint64_t bits = uint64_t{device()} << 32 | device();
    return bits % (kPrime - 2) + 2;
  }();
  return point;
}

}  // namespace

Cover::Cover(const std::vector<int64_t>& shape, uint64_t point) : steps_(shape.size()) {
  uint64_t step = point;
  for (size_t d = shape.size(); d-- > 0;) {
    steps_[d] = step;
    step = powers(step, static_cast<uint64_t>(shape[d])).power;
  }
}

void Cover::add(const Box& box) {
  // The sum over a box is the product over its dimensions, of x^(offset * stride) times a geometric series.
  uint64_t product = 1;
  for (size_t d = 0; d < steps_.size(); ++d) {
    product = times(product, powers(steps_[d], static_cast<uint64_t>(box.offset[d])).power);
    product = times(product, powers(steps_[d], static_cast<uint64_t>(box.extent[d])).sum);
  }
  add(product);
}

void Cover::add(uint64_t sum) {
  sum_ = plus(sum_, sum % kPrime);
}

bool cover_once(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  Cover held(shape, random_point()), whole(shape, random_point());
  for (const Box& box : boxes) held.add(box);
  whole.add(Box::whole(shape));
  return held.sum() == whole.sum();
}

}  // namespace weft

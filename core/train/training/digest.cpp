#include "training/digest.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <type_traits>

#include "device/tensors.hpp"

namespace weft {

namespace {

constexpr int kLanes = 8;                // independent sums, for the vector units
constexpr int64_t kBlock = 1 << 12;      // the period of the weights; every block has a factor of its own
constexpr int64_t kGrain = 16 * kBlock;  // elements for one thread at least

// Scrambles a number (SplitMix64; Steele, Lea and Flood, 2014).
constexpr uint64_t scrambled(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The weights of the elements of a block.
struct Weights {
  std::array<uint32_t, kBlock> odd;
  std::array<std::array<float, kBlock>, kSketches> signs;
  Weights() {
    for (int64_t i = 0; i < kBlock; ++i) {
      const uint64_t bits = scrambled(static_cast<uint64_t>(i));
      odd[i] = static_cast<uint32_t>(bits) | 1;
      for (int s = 0; s < kSketches; ++s) signs[s][i] = (bits >> (32 + s) & 1) != 0 ? 1.0f : -1.0f;
    }
  }
};
const Weights& weights() {
  static const Weights made;
  return made;
}

// Calls body(place in the block, offset in the values, count, block) for the parts of a range that lie in one
// block each.
template <class Body>
void for_each_block(int64_t begin, int64_t count, const Body& body) {
  for (int64_t done = 0; done < count;) {
    const int64_t place = (begin + done) % kBlock, length = std::min(kBlock - place, count - done);
    body(place, done, length, static_cast<uint64_t>((begin + done) / kBlock));
    done += length;
  }
}

template <class Bits>
uint64_t sum_of_block(const Bits* bits, const uint32_t* odd, int64_t count) {
  uint64_t lanes[kLanes] = {};
  int64_t i = 0;
  const auto term = [&](int64_t at) -> uint64_t {
    if constexpr (sizeof(Bits) == 8)
      return (bits[at] & 0xffffffff) * odd[at] + (bits[at] >> 32) * (odd[at] ^ 0x5bd1e994u);
    else
      return static_cast<uint64_t>(bits[at]) * odd[at];
  };
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  for (; i < count; ++i) lanes[0] += term(i);
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

template <class Bits>
uint64_t digest_of_bits(const Bits* bits, int64_t begin, int64_t count) {
  const auto of_range = [&](int64_t from, int64_t to, uint64_t sum) {
    for_each_block(begin + from, to - from,
                   [&](int64_t place, int64_t offset, int64_t length, uint64_t block) {
                     sum += sum_of_block(bits + from + offset, weights().odd.data() + place, length) *
                            (scrambled(block) | 1);
                   });
    return sum;
  };
  return at::parallel_reduce(int64_t{0}, count, kGrain, uint64_t{0}, of_range, std::plus<uint64_t>());
}

uint64_t digest_of_bytes(const at::Tensor& values, int64_t begin) {
  const void* const data = values.const_data_ptr();
  switch (values.element_size()) {
    case 1:
      return digest_of_bits(static_cast<const uint8_t*>(data), begin, values.numel());
    case 2:
      return digest_of_bits(static_cast<const uint16_t*>(data), begin, values.numel());
    case 4:
      return digest_of_bits(static_cast<const uint32_t*>(data), begin, values.numel());
    default:
      return digest_of_bits(static_cast<const uint64_t*>(data), begin, values.numel());
  }
}

template <class T>
void add_block(const T* data, int64_t place, int64_t count, uint64_t block, Sketch& sketch) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const Weights& weight = weights();
  Sum lanes[kSketches][kLanes] = {}, squares[kLanes] = {};
  const auto add = [&](int64_t i, int lane) {
    const Sum value = static_cast<Sum>(data[i]);
    for (int s = 0; s < kSketches; ++s)
      lanes[s][lane] += value * static_cast<Sum>(weight.signs[s][place + i]);
    squares[lane] += value * value;
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  for (; i < count; ++i) add(i, 0);
  const uint64_t signs = scrambled(~block);
  for (int s = 0; s < kSketches; ++s) {
    double sum = 0;
    for (const Sum lane : lanes[s]) sum += lane;
    sketch.projections[s] += (signs >> s & 1) != 0 ? sum : -sum;
  }
  for (const Sum square : squares) sketch.square += square;
}

Sketch sum_of(Sketch a, const Sketch& b) {
  for (int s = 0; s < kSketches; ++s) a.projections[s] += b.projections[s];
  a.square += b.square;
  return a;
}

}  // namespace

uint64_t digest_of(const at::Tensor& values, int64_t begin, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = device::on_host(values.detach()).contiguous().view(-1);
  if (flat.scalar_type() == dtype) return digest_of_bytes(flat, begin);
  uint64_t sum = 0;  // in pieces, so that the copy is small
  constexpr int64_t kPiece = 1 << 20;
  for (int64_t done = 0; done < flat.numel(); done += kPiece)
    sum +=
        digest_of_bytes(flat.narrow(0, done, std::min(kPiece, flat.numel() - done)).to(dtype), begin + done);
  return sum;
}

void add_to_sketch(const at::Tensor& values, int64_t begin, Sketch& sketch) {
  const at::Tensor flat = device::on_host(values.detach()).contiguous().view(-1);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, flat.scalar_type(), "sketch", [&] {
    const scalar_t* const data = flat.const_data_ptr<scalar_t>();
    const auto of_range = [&](int64_t from, int64_t to, Sketch sum) {
      for_each_block(begin + from, to - from,
                     [&](int64_t place, int64_t offset, int64_t length, uint64_t block) {
                       add_block(data + from + offset, place, length, block, sum);
                     });
      return sum;
    };
    sketch =
        sum_of(sketch, at::parallel_reduce(int64_t{0}, flat.numel(), kGrain, Sketch{}, of_range, sum_of));
  });
}

double mean_square(const std::array<double, kSketches>& projections) {
  double sum = 0;
  for (const double value : projections) sum += value * value;
  return sum / kSketches;
}

}  // namespace weft

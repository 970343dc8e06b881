#include "layers/initialise.hpp"

#include <ATen/Dispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "parallel.hpp"

namespace weft::nn {

namespace {

using Block = std::array<uint32_t, 4>;

Block philox(Block counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * counter[0], p1 = 0xCD9E8D57ull * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// Returns a number in (0, 1). It is never 0, whose logarithm is infinite.
double unit_interval(uint32_t high, uint32_t low) {
  return (static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) + 0.5) * 0x1p-53;
}

// The elements of a random parameter. A Philox block yields two numbers of 53 bits, so the elements 2i and 2i
// + 1 share one, and are made together.
class Random {
 public:
  Random(const Initial& initial, uint64_t key, uint64_t name) : initial_(initial), key_(key), name_(name) {}
  double at(int64_t index) {
    if (index >= initial_.zeros_begin && index < initial_.zeros_end) return 0;
    if (index / 2 != pair_) make(index / 2);
    return values_[index % 2];
  }

 private:
  void make(int64_t pair) {
    pair_ = pair;
    const auto counter = static_cast<uint64_t>(pair);
    const Block b = philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                            static_cast<uint32_t>(name_), static_cast<uint32_t>(name_ >> 32)},
                           key_);
    const double u = unit_interval(b[0], b[1]), v = unit_interval(b[2], b[3]);
    if (initial_.kind == Initial::Kind::kUniform) {
      const double size = initial_.second - initial_.first;
      values_[0] = initial_.first + size * u;
      values_[1] = initial_.first + size * v;
      return;
    }
    const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * M_PI * v;
    values_[0] = initial_.first + initial_.second * radius * std::cos(angle);
    values_[1] = initial_.first + initial_.second * radius * std::sin(angle);
  }

  const Initial& initial_;
  const uint64_t key_, name_;
  int64_t pair_ = -1;
  double values_[2] = {};
};

// The elements of Initial::sinusoids. Angles are fp32 as in Hugging Face, where rounding moves those of late
// positions by up to 1e-4.
class Sinusoids {
 public:
  explicit Sinusoids(int64_t channels)
      : half_(channels / 2),
        frequencies_(
            at::exp(at::arange(half_, at::kFloat) * (-std::log(10000.0) / static_cast<double>(half_ - 1)))) {}
  double at(int64_t index) const {
    const int64_t position = index / (2 * half_), channel = index % (2 * half_);
    const float angle = static_cast<float>(position) * frequencies_.const_data_ptr<float>()[channel % half_];
    return channel < half_ ? std::sin(angle) : std::cos(angle);
  }

 private:
  const int64_t half_;
  const at::Tensor frequencies_;
};

// The elements of a box, as runs that are contiguous in the whole parameter.
class Runs {
 public:
  Runs(const std::vector<int64_t>& shape, const Box& box) : shape_(shape), box_(box) {
    for (size_t d = shape.size(); d-- > 0;) {
      length_ *= box.extent[d];
      if (box.extent[d] != shape[d]) break;
    }
  }
  // Returns the index of element `place` of the flattened box in the flattened parameter, and how many
  // elements of the run are left from there.
  std::pair<int64_t, int64_t> at(int64_t place) const {
    int64_t rest = place, index = 0, stride = 1;
    for (size_t d = shape_.size(); d-- > 0;) {
      index += (box_.offset[d] + rest % box_.extent[d]) * stride;
      rest /= box_.extent[d];
      stride *= shape_[d];
    }
    return {index, length_ - place % length_};
  }

 private:
  const std::vector<int64_t>& shape_;
  const Box& box_;
  int64_t length_ = 1;  // of a run
};

// Sets each element to elements.at(its index in the flattened parameter). Each thread has its own copy.
template <class Elements>
void fill(const at::Tensor& values, const Runs& runs, const Elements& elements) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, values.scalar_type(), "initialise", [&] {
    scalar_t* const out = values.data_ptr<scalar_t>();
    kernels::parallel_for(0, values.numel(), 4096, [&](int64_t from, int64_t to) {
      Elements own = elements;
      while (from < to) {
        const auto [index, left] = runs.at(from);
        const int64_t count = std::min(left, to - from);
        for (int64_t i = 0; i < count; ++i) out[from + i] = static_cast<scalar_t>(own.at(index + i));
        from += count;
      }
    });
  });
}

}  // namespace

void initialise(const Initial& initial, int64_t seed, std::string_view name, int64_t begin,
                const at::Tensor& destination) {
  const int64_t count = destination.numel();
  initialise(initial, seed, name, {begin + count}, {{begin}, {count}}, destination);
}

void initialise(const Initial& initial, int64_t seed, std::string_view name,
                const std::vector<int64_t>& shape, const Box& box, const at::Tensor& destination) {
  if (initial.kind == Initial::Kind::kOfLayer)
    fail(
        WEFT_INVALID_ARGUMENT,
        "the initial values of {} are those of a layer (nn::Initial::of_layer), which only a parameter of an "
        "nn::Addition can have",
        name);
  if (initial.kind == Initial::Kind::kConstant) {
    destination.fill_(initial.first);
    return;
  }
  const at::Tensor values = device::host_memory_for(destination);
  const Runs runs(shape, box);
  if (initial.kind == Initial::Kind::kSinusoids)
    fill(values, runs, Sinusoids(static_cast<int64_t>(initial.first)));
  else
    fill(values, runs, Random(initial, static_cast<uint64_t>(seed), fnv1a(name)));
  if (!values.is_same(destination)) destination.copy_(values);
}

}  // namespace weft::nn

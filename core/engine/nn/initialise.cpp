#include "nn/initialise.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <array>
#include <cmath>

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

// In (0, 1): never 0, whose logarithm is infinite.
double unit_interval(uint32_t high, uint32_t low) {
  return (static_cast<double>((static_cast<uint64_t>(high) << 32 | low) >> 11) + 0.5) * 0x1p-53;
}

// Element `index`: a block gives two numbers of 53 bits, so elements 2i and 2i + 1 share one.
double value_at(const Initial& initial, uint64_t key, uint64_t name, int64_t index) {
  const uint64_t pair = static_cast<uint64_t>(index) / 2;
  const Block b = philox({static_cast<uint32_t>(pair), static_cast<uint32_t>(pair >> 32),
                          static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32)},
                         key);
  const double u = unit_interval(b[0], b[1]), v = unit_interval(b[2], b[3]);
  const bool second = index % 2 != 0;
  if (initial.kind == Initial::Kind::kUniform)
    return initial.first + (initial.second - initial.first) * (second ? v : u);
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * M_PI * v;
  return initial.first + initial.second * radius * (second ? std::sin(angle) : std::cos(angle));
}

}  // namespace

void initialise(const Initial& initial, int64_t seed, std::string_view name, int64_t begin,
                const at::Tensor& destination) {
  if (initial.kind == Initial::Kind::kConstant) {
    destination.fill_(initial.first);
    return;
  }
  const uint64_t hash = fnv1a(name);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, destination.scalar_type(), "initialise", [&] {
    scalar_t* const out = destination.data_ptr<scalar_t>();
    at::parallel_for(0, destination.numel(), 4096, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i)
        out[i] = static_cast<scalar_t>(value_at(initial, static_cast<uint64_t>(seed), hash, begin + i));
    });
  });
}

}  // namespace weft::nn

// Rotary positions (Su et al., RoFormer: enhanced transformer with rotary position embedding,
// arXiv:2104.09864) with the scalings of Hugging Face's modeling_rope_utils.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>

#include "weft/config.hpp"

namespace weft::nn {

// The parameters of rotary positions in a configuration.
struct RotaryConfig {
  enum class Scaling {
    kDefault,
    kLinear,        // all frequencies divided by `factor`
    kByWavelength,  // low ones divided, high ones kept, those between interpolated
  };
  Scaling scaling = Scaling::kDefault;
  double theta = 10000;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // kByWavelength
  int64_t original_positions = 0;  // kByWavelength: the longest sequence before scaling

  // Reads "rope_parameters" of transformers 5, or "rope_scaling" and "rope_theta" of transformers 4. Throws
  // UNIMPLEMENTED naming a scaling that transformers has and Weft does not.
  static RotaryConfig read(const Config& config, int64_t max_positions);
};

// Turns pairs of channels by angles that grow with the position. Tables are made on first use and shared.
class Rotary {
 public:
  // size: D, even.
  Rotary(const RotaryConfig& config, int64_t size);
  // Turns channels i and i + D / 2 by position times frequency i. x: (N, T, H, D) -> the same shape;
  // positions: (1, T) or (N, T) int64, or undefined for 0 ... T - 1. May be called from any thread.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const;

 private:
  struct Table {
    at::Tensor cosine, sine;  // (positions, D / 2), fp32
  };
  // Of at least `positions` positions.
  Table table(int64_t positions) const;

  const at::Tensor frequencies_;  // (D / 2), fp32
  mutable std::mutex mutex_;
  mutable Table table_;
};

}  // namespace weft::nn

// Rotary position embeddings (Su et al., RoFormer: enhanced transformer with rotary position embedding,
// arXiv:2104.09864) with the scalings of Hugging Face's modeling_rope_utils.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "weft/config.hpp"

namespace weft::nn {

// The parameters of rotary position embeddings in a configuration.
struct RotaryConfig {
  enum class Scaling {
    kDefault,
    kLinear,        // divides all frequencies by `factor`
    kByWavelength,  // divides low frequencies, keeps high ones, and interpolates between
  };
  Scaling scaling = Scaling::kDefault;
  double theta = 10000;
  // The share of the channels of a head that turn, more than 0 and at most 1: int(part * D), rounded up to an
  // even number. They come first; the others keep their values ("partial_rotary_factor").
  double part = 1;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // kByWavelength
  int64_t original_positions = 0;  // kByWavelength: the longest sequence before scaling

  // Reads "rope_parameters" of transformers 5, or "rope_scaling" and "rope_theta" of transformers 4. `part`
  // is the default of "partial_rotary_factor"; without it the family turns whole heads, and a file that says
  // otherwise is refused. Throws UNIMPLEMENTED naming a scaling that transformers has and Weft does not, and
  // INVALID_ARGUMENT naming a value that cannot be.
  static RotaryConfig read(const Config& config, int64_t max_positions, std::optional<double> part = {});
  // Returns how many of the `size` channels of a head turn, an even number; 0 if they cannot: no channel
  // would, or all of an odd number.
  int64_t turning(int64_t size) const;
};

// Rotates pairs of channels by angles that grow with the position. Computes the tables of cosines and sines
// on first use; threads share them. R = config.turning(D) channels of a head turn.
class Rotary {
 public:
  // `size` is the head size D. Throws INVALID_ARGUMENT if config.turning(size) is 0.
  Rotary(const RotaryConfig& config, int64_t size);
  // Rotates channels i and i + R / 2 by position times frequency i, and returns the channels from R on as
  // they are. x: (N, T, H, D) -> the same shape; positions: (1, T) or (N, T) int64, or undefined for 0 ... T
  // - 1. Safe from several threads.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& positions) const;

 private:
  struct Table {
    at::Tensor cosine, sine;  // (positions, R / 2), fp32
  };
  // Returns a table of at least `positions` positions, on the host or on the device.
  Table table(int64_t positions, bool on_host) const;
  // Returns the rows of `positions` in the dtype of x, (1 or N, T, R / 2).
  Table rows(const at::Tensor& x, const at::Tensor& positions) const;
  // Returns the same rows, computed once in a forward pass and shared by all layers.
  Table shared_rows(const at::Tensor& x, const at::Tensor& positions) const;
  // Returns the table of `positions`, which are on the device. Does not ask for the largest of them, for
  // which the host would wait.
  Table table_of(const at::Tensor& positions) const;

  const at::Tensor frequencies_;  // (R / 2), fp32
  mutable std::mutex mutex_;
  mutable Table table_, device_table_;
  mutable at::Tensor device_frequencies_;
};

}  // namespace weft::nn

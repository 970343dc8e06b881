// The names of the fields of batches that models of several kinds share; they are Hugging Face's.
#pragma once

#include <cstdint>

namespace weft::nn {

// Of all models.
inline constexpr const char* kLabels = "labels";
// Of models of images: B images, C channels of a pixel, H and W pixels, P patches.
inline constexpr const char* kPixels = "pixel_values";            // (B, C, H, W)
inline constexpr const char* kMaskedPatches = "bool_masked_pos";  // (B, P), 1 or 0; in a State boolean
// Of models of recordings.
inline constexpr const char* kSpectra = "input_features";  // (N, mel bins, frames)

// The label of a position that the loss ignores, as in PyTorch's cross entropy.
inline constexpr int64_t kIgnored = -100;

}  // namespace weft::nn

// The inputs and layers of models of images. Shapes: B images, C channels of a pixel, H and W pixels, h and w
// patches, P = h w, E features.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/config.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/inputs.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

// The size of an image or of a patch in pixels, or of a grid in patches.
struct HeightWidth {
  int64_t height = 0;
  int64_t width = 0;

  int64_t area() const { return height * width; }
  bool is_square() const { return height == width; }
  // Returns the grid of the parts of size `part` that fit in.
  HeightWidth over(const HeightWidth& part) const { return {height / part.height, width / part.width}; }
  bool operator==(const HeightWidth&) const = default;
};

// Returns the value under `key`, one integer for both or [height, width], each at least 1; `otherwise` for
// both if the key is absent. Throws INVALID_ARGUMENT.
HeightWidth height_and_width(const Config& config, std::string_view key, int64_t otherwise);

// The images that a model takes.
struct PixelOptions {
  int64_t channels = 3;
  HeightWidth image;
  HeightWidth patch;
  int64_t tokens = 0;            // positions before the patches, such as a class token
  bool resizes = false;          // whether images can have another size, of one patch or more
  std::string resizes_key = {};  // the key of `resizes` in config.json
  at::ScalarType dtype = at::kFloat;
};
// Returns inputs that copy kPixels to the State; the first unit erases them. The sequence has a position for
// each token and each patch.
std::unique_ptr<Inputs> make_pixel_inputs(PixelOptions options);

// Checks kMaskedPatches (rows, patches) of a batch with kPixels and returns it as booleans. Throws
// INVALID_ARGUMENT.
at::Tensor masked_patches(const BatchFields& batch, int64_t rows, int64_t patches);

// Computes a convolution of adjacent patches, like torch.nn.Conv2d with kernel_size and stride of `patch`.
// Pixels that do not fill a patch are left out.
class PatchConvolution : public Layer {
 public:
  PatchConvolution(int64_t in, int64_t out, HeightWidth patch, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // x: (B, in, H, W) -> (B, out, h, w)
  std::string kind() const override { return "PatchConvolution"; }

  at::Tensor weight, bias;  // (out, in, patch.height, patch.width), (out)
  const HeightWidth patch;
};

// Returns learned positions for a grid of another size, (1, tokens + P', E), by bicubic interpolation.
// positions: (1, tokens + P, E), of which the first `tokens` are unchanged.
at::Tensor resized_positions(const at::Tensor& positions, int64_t tokens, HeightWidth grid,
                             HeightWidth wanted);

}  // namespace weft::nn

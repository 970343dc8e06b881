#include "weft/nn/images.hpp"

#include <ATen/OpMathType.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/zeros.h>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "weft/nn/image_model.hpp"

namespace weft::nn {

namespace {

class PixelInputs final : public Inputs {
 public:
  explicit PixelInputs(PixelOptions options) : options_(std::move(options)) {}

  std::vector<std::string> fields() const override { return {kPixels}; }
  std::vector<std::string> consumed() const override { return {kPixels}; }
  void read(const BatchFields& batch, State& state) const override {
    const at::Tensor pixels = batch.reals(kPixels);
    if (!fits(pixels))
      batch.refuse(kPixels, fmt::format("its shape is {}, must be {}", shape_text(pixels.sizes()), wanted()));
    if (pixels.size(0) == 0) batch.refuse(kPixels, "it has no samples");
    state.set(kPixels, pixels.to(options_.dtype));
  }
  std::vector<int64_t> shape(const Batch& batch) const override {
    const at::Tensor& pixels = batch.at(kPixels);
    if (!fits(pixels))
      fail(WEFT_INVALID_ARGUMENT, "{}: its shape is {}, must be {}", kPixels, shape_text(pixels.sizes()),
           wanted());
    const HeightWidth grid = HeightWidth{pixels.size(2), pixels.size(3)}.over(options_.patch);
    return {pixels.size(0), options_.tokens + grid.area()};
  }
  void add_example(int64_t samples, int64_t, Batch& batch) const override {
    batch.set(kPixels, at::zeros({samples, options_.channels, options_.image.height, options_.image.width},
                                 options_.dtype));
  }

 private:
  bool fits(const at::Tensor& pixels) const {
    if (pixels.dim() != 4 || pixels.size(1) != options_.channels) return false;
    const HeightWidth image = {pixels.size(2), pixels.size(3)};
    return image == options_.image || (options_.resizes && image.over(options_.patch).area() > 0);
  }
  std::string wanted() const {
    if (options_.resizes)
      return fmt::format(
          "[images, {}, height, width], with a height of at least {} and a width of at least {}",
          options_.channels, options_.patch.height, options_.patch.width);
    const std::string same =
        fmt::format("[images, {}, {}, {}]", options_.channels, options_.image.height, options_.image.width);
    if (options_.resizes_key.empty()) return same;
    return fmt::format("{}; for images of other sizes set \"{}\" to true in the configuration", same,
                       options_.resizes_key);
  }

  const PixelOptions options_;
};

at::Tensor meta(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

}  // namespace

const ImageModel* find_image_model(const Model& model) {
  return dynamic_cast<const ImageModel*>(&model);
}

HeightWidth height_and_width(const Config& config, std::string_view key, int64_t otherwise) {
  if (!config.has(key)) return {otherwise, otherwise};
  const nlohmann::json value = parse_json(config.json(key), config.origin());
  const auto is_size = [](const nlohmann::json& number) {
    return number.is_number_integer() && number >= 1 && number <= 1 << 20;
  };
  if (is_size(value)) return {value.get<int64_t>(), value.get<int64_t>()};
  if (value.is_array() && value.size() == 2 && is_size(value[0]) && is_size(value[1]))
    return {value[0].get<int64_t>(), value[1].get<int64_t>()};
  fail(WEFT_INVALID_ARGUMENT,
       "{}: \"{}\" is {}, must be an integer from 1 to {}, or [height, width] of two such integers",
       config.origin(), key, printable(config.json(key), 60), 1 << 20);
}

std::unique_ptr<Inputs> make_pixel_inputs(PixelOptions options) {
  return std::make_unique<PixelInputs>(std::move(options));
}

at::Tensor masked_patches(const BatchFields& batch, int64_t rows, int64_t patches) {
  const at::Tensor &mask = batch.batch().at(kMaskedPatches), &pixels = batch.batch().at(kPixels);
  if (mask.dim() != 2 || mask.size(0) != rows || mask.size(1) != patches)
    batch.refuse(kMaskedPatches,
                 fmt::format("its shape is {}, must be [{}, {}], the patches of \"{}\" of shape {}",
                             shape_text(mask.sizes()), rows, patches, kPixels, shape_text(pixels.sizes())));
  const at::Tensor masked = mask.ne(0);
  if (mask.scalar_type() != at::kBool && !device::value_of<bool>(mask.eq(masked).all()))
    batch.refuse(kMaskedPatches, "it has values beside 0 and 1 (masked)");
  return masked;
}

PatchConvolution::PatchConvolution(int64_t in, int64_t out, HeightWidth patch, at::ScalarType dtype)
    : patch(patch) {
  weight = register_parameter("weight", meta({out, in, patch.height, patch.width}, dtype));
  bias = register_parameter("bias", meta({out}, dtype));
}

at::Tensor PatchConvolution::operator()(const at::Tensor& x) const {
  return at::conv2d(x, weight, bias, /*stride=*/{patch.height, patch.width});
}

// Half precision is interpolated in fp32, because not every device has the kernel.
at::Tensor resized_positions(const at::Tensor& positions, int64_t tokens, HeightWidth grid,
                             HeightWidth wanted) {
  if (grid == wanted) return positions;
  const at::Tensor patches = positions.slice(1, tokens)
                                 .transpose(1, 2)
                                 .unflatten(2, {grid.height, grid.width})
                                 .to(at::toOpMathType(positions.scalar_type()));
  const at::Tensor resized =
      at::upsample_bicubic2d(patches, {wanted.height, wanted.width}, /*align_corners=*/false);
  return at::cat(
      {positions.slice(1, 0, tokens), resized.flatten(2).transpose(1, 2).to(positions.scalar_type())}, 1);
}

}  // namespace weft::nn

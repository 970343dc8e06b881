// Masks of images in squares of several patches (Xie et al., SimMIM: a simple framework for masked image
// modeling, arXiv:2111.09886, section 3.2).
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "loader/derived_dataset.hpp"
#include "loader/objectives.hpp"
#include "loader/random.hpp"
#include "weft/nn/field_names.hpp"

namespace weft::data {

namespace {

using nn::kMaskedPatches, nn::kPixels;

class MaskedPatches final : public DerivedDataset {
 public:
  MaskedPatches(std::shared_ptr<Dataset> dataset, const PatchMasking& masking, SettingName called)
      : DerivedDataset(std::move(dataset), std::move(called)), masking_(masking) {
    const int64_t side = masking_.mask_patch_size;
    if (side < 1 || side % masking_.patch_height != 0 || side % masking_.patch_width != 0)
      fail(WEFT_INVALID_ARGUMENT,
           "{} is {}, must be a multiple of the model's patches, which have {} x {} pixels",
           setting_name("mask_patch_size"), side, masking_.patch_height, masking_.patch_width);
    const Batch first = first_sample();
    if (first.has(kMaskedPatches)) refuse_given(kMaskedPatches);
    check(first);
  }

  std::string objective() const override {
    return fmt::format("masked_image with mask_patch_size {}, mask_ratio {} and seed {}",
                       masking_.mask_patch_size, masking_.ratio, masking_.seed);
  }

 private:
  void check(const Batch& batch) const override {
    const at::Tensor* pixels = batch.find(kPixels);
    if (pixels == nullptr || pixels->dim() != 4)
      refuse(
          fmt::format("the samples have no images (\"{}\" of samples, channels, height, width) to mask; give "
                      "them in a .safetensors file",
                      kPixels));
    const int64_t side = masking_.mask_patch_size, height = pixels->size(2), width = pixels->size(3);
    if (height < side || width < side || height % side != 0 || width % side != 0)
      refuse(
          fmt::format("images have {} x {} pixels, must be a multiple of the masked squares in both "
                      "directions, which have a side of {} ({})",
                      height, width, side, setting_name("mask_patch_size")));
  }

  void make(const std::vector<int64_t>& indices, int64_t epoch, Batch& batch) const override {
    const at::Tensor& pixels = batch.at(kPixels);
    const int64_t rows = pixels.size(2) / masking_.patch_height,
                  columns = pixels.size(3) / masking_.patch_width;
    const at::Tensor masks = at::zeros({pixels.size(0), rows, columns}, at::kLong);
    for (size_t i = 0; i < indices.size(); ++i) {
      SampleRandom random(masking_.seed, epoch, indices[i]);
      mask(masks[static_cast<int64_t>(i)], random);
    }
    batch.set(kMaskedPatches, masks.flatten(1));
  }

  // Masks squares without repetition: the first ones of a shuffle (Fisher and Yates). grid: (rows, columns)
  void mask(const at::Tensor& grid, SampleRandom& random) const {
    const int64_t height = masking_.mask_patch_size / masking_.patch_height,
                  width = masking_.mask_patch_size / masking_.patch_width;
    const int64_t columns = grid.size(1) / width, squares = grid.size(0) / height * columns;
    std::vector<int64_t> order(static_cast<size_t>(squares));
    std::iota(order.begin(), order.end(), 0);
    const auto masked = static_cast<size_t>(std::ceil(static_cast<double>(squares) * masking_.ratio));
    for (size_t i = 0; i < masked; ++i) {
      std::swap(order[i], order[i + draw_below(order.size() - i, random)]);
      grid.narrow(0, order[i] / columns * height, height)
          .narrow(1, order[i] % columns * width, width)
          .fill_(1);
    }
  }

  const PatchMasking masking_;
};

}  // namespace

std::shared_ptr<Dataset> with_masked_patches(std::shared_ptr<Dataset> dataset, PatchMasking masking,
                                             SettingName called) {
  return std::make_shared<MaskedPatches>(std::move(dataset), masking, std::move(called));
}

}  // namespace weft::data

#include "vit_heads.hpp"

#include <ATen/OpMathType.h>
#include <ATen/ops/pixel_shuffle.h>

#include <cmath>

#include "weft/nn/layers.hpp"
#include "weft/nn/pooled_heads.hpp"
#include "weft/torch/values.hpp"

namespace weft::vit {

namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kReconstruction = "reconstruction";

class ImageClassifier final : public nn::Head {
 public:
  ImageClassifier(torch::nn::Module& model, const VitConfig& config, at::ScalarType dtype)
      : labels_(config.labels) {
    classifier_ = model.register_module(
        "classifier", std::make_shared<nn::Linear>(config.hidden_size, labels_.count(), true, dtype));
  }
  std::vector<std::string> fields() const override { return {nn::kLabels, nn::kLabelProbabilities}; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State&) const override {
    labels_.check(batch, positions[0]);
  }
  std::vector<torch::nn::Module*> modules() const override { return {classifier_.get()}; }
  // The norm acts on each position by itself, so it runs on the class tokens only.
  void forward(const Finish& finish, State& state) const override {
    state.set(kLogits, (*classifier_)(finish(nn::take(state, nn::kHidden).select(1, 0))));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    return labels_.loss(outputs.at(kLogits), batch);
  }
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    return labels_.counts(batch);
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    return labels_.metrics(outputs.at(kLogits), batch);
  }

 private:
  const nn::ClassLabels labels_;
  std::shared_ptr<nn::Linear> classifier_;
};

class Reconstruction final : public nn::Head {
 public:
  Reconstruction(torch::nn::Module& model, const VitConfig& config, at::ScalarType dtype)
      : channels_(config.num_channels), stride_(config.encoder_stride), patch_(config.patch_size) {
    convolution_ = nn::submodule(model, "decoder")
                       .register_module("0", std::make_shared<nn::PatchConvolution>(
                                                 config.hidden_size, stride_ * stride_ * channels_,
                                                 nn::HeightWidth{1, 1}, dtype));
  }
  std::vector<std::string> fields() const override { return {nn::kMaskedPatches}; }
  std::vector<nn::Objective> objectives() const override {
    return {{nn::Objective::Kind::kMaskedImage, patch_.height, patch_.width}};
  }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State& state) const override {
    const at::Tensor& pixels = batch.batch().at(nn::kPixels);
    const nn::HeightWidth image = size_of(pixels), grid = image.over(patch_);
    if (!grid.is_square())
      batch.refuse(nn::kPixels, "its shape is " + nn::shape_text(pixels.sizes()) +
                                    ", must have as many rows of patches as columns");
    if (!batch.has(nn::kMaskedPatches)) return;
    if (stride_ != patch_.height)
      batch.refuse(nn::kMaskedPatches,
                   "it needs an \"encoder_stride\" equal to \"patch_size\" in the configuration; these are " +
                       std::to_string(stride_) + " and " + std::to_string(patch_.height));
    if (image != nn::HeightWidth{grid.height * patch_.height, grid.width * patch_.width})
      batch.refuse(nn::kMaskedPatches, "it needs images whose height and width are multiples of " +
                                           std::to_string(patch_.height) + ", but pixel_values is " +
                                           nn::shape_text(pixels.sizes()));
    state.set(nn::kMaskedPatches, nn::masked_patches(batch, positions[0], grid.area()));
  }
  std::vector<torch::nn::Module*> modules() const override { return {convolution_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    state.erase(nn::kMaskedPatches);
    const at::Tensor patches = finish(nn::take(state, nn::kHidden)).slice(1, 1).transpose(1, 2);
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(patches.size(2))));
    const at::Tensor grid = patches.reshape({patches.size(0), patches.size(1), side, side});
    state.set(kReconstruction, at::pixel_shuffle((*convolution_)(grid), stride_));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(nn::kMaskedPatches)) return {};
    const at::Tensor &found = outputs.at(kReconstruction), &pixels = batch.at(nn::kPixels);
    const at::ScalarType exact = at::toOpMathType(found.scalar_type());
    const nn::HeightWidth grid = size_of(pixels).over(patch_);
    const at::Tensor mask = batch.at(nn::kMaskedPatches)
                                .to(exact)
                                .view({-1, 1, grid.height, grid.width})
                                .repeat_interleave(patch_.height, 2)
                                .repeat_interleave(patch_.width, 3);
    return {{"loss", 1, ((pixels.to(exact) - found.to(exact)).abs() * mask).sum()}};
  }
  // Counts the masked pixels in every channel. Hugging Face adds 1e-5 to the number of pixels.
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    if (!batch.has(nn::kMaskedPatches)) return {};
    const int64_t patches = values_of<int64_t>(batch.at(nn::kMaskedPatches).ne(0).sum()).front();
    return {{"loss", static_cast<double>(patches * patch_.area() * channels_)}};
  }

 private:
  static nn::HeightWidth size_of(const at::Tensor& pixels) { return {pixels.size(2), pixels.size(3)}; }

  const int64_t channels_, stride_;
  const nn::HeightWidth patch_;
  std::shared_ptr<nn::PatchConvolution> convolution_;
};

}  // namespace

std::unique_ptr<nn::Head> make_pooler(torch::nn::Module& model, const VitConfig& config,
                                      at::ScalarType dtype) {
  return nn::make_pooled_base_head(model.register_module(
      "pooler",
      std::make_shared<nn::Pooler>(config.hidden_size, config.pooler_output_size, config.pooler_act, dtype)));
}

std::unique_ptr<nn::Head> make_image_classifier(torch::nn::Module& model, const VitConfig& config,
                                                at::ScalarType dtype) {
  return std::make_unique<ImageClassifier>(model, config, dtype);
}

std::unique_ptr<nn::Head> make_reconstruction(torch::nn::Module& model, const VitConfig& config,
                                              at::ScalarType dtype) {
  return std::make_unique<Reconstruction>(model, config, dtype);
}

}  // namespace weft::vit

#include "whisper_heads.hpp"

#include <ATen/ops/empty.h>

#include "weft/nn/layers.hpp"

namespace weft::whisper {

namespace {

constexpr const char* kLogits = "logits";

// Sums hidden states with weights that are the softmax of a parameter.
class LayerMix final : public nn::Layer {
 public:
  LayerMix(int64_t count, at::ScalarType dtype) {
    weight =
        register_parameter("weight", at::empty({count}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  // x: (..., count E) -> (..., E)
  at::Tensor operator()(const at::Tensor& x) const {
    return (x.unflatten(-1, {weight.size(0), -1}) * weight.softmax(-1).unsqueeze(-1)).sum(-2);
  }
  std::string kind() const override { return "LayerMix"; }

  at::Tensor weight;  // (count)
};

class AudioClassifier final : public nn::Head {
 public:
  AudioClassifier(torch::nn::Module& model, const WhisperConfig& config, at::ScalarType dtype)
      : labels_(config.labels) {
    const auto linear = [&](const char* name, int64_t in, int64_t out) {
      return model.register_module(name, std::make_shared<nn::Linear>(in, out, true, dtype));
    };
    if (config.use_weighted_layer_sum) {
      layer_mix_ =
          model.register_module("layer_mix", std::make_shared<LayerMix>(config.encoder_layers + 1, dtype));
      model.register_parameter("layer_weights", layer_mix_->weight);
    }
    projector_ = linear("projector", config.d_model, config.classifier_proj_size);
    classifier_ = linear("classifier", config.classifier_proj_size, labels_.count());
  }

  std::vector<std::string> fields() const override { return {nn::kLabels}; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State&) const override {
    labels_.check(batch, positions[0]);
  }
  std::vector<torch::nn::Module*> modules() const override {
    std::vector<torch::nn::Module*> modules = {projector_.get(), classifier_.get()};
    if (layer_mix_) modules.insert(modules.begin(), layer_mix_.get());
    return modules;
  }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor hidden = finish(nn::take(state, nn::kHidden));
    const at::Tensor projected = (*projector_)(layer_mix_ ? (*layer_mix_)(hidden) : hidden);
    state.set(kLogits, (*classifier_)(projected.mean(1)));
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
  // Files have the name that the parameter has in Hugging Face's class, which belongs to no layer.
  std::vector<nn::Tie> ties() const override {
    if (!layer_mix_) return {};
    return {{"layer_mix.weight", "layer_weights"}};
  }

 private:
  const nn::ClassLabels labels_;
  std::shared_ptr<LayerMix> layer_mix_;  // null without use_weighted_layer_sum
  std::shared_ptr<nn::Linear> projector_, classifier_;
};

}  // namespace

std::unique_ptr<nn::Head> make_audio_classifier(torch::nn::Module& model, const WhisperConfig& config,
                                                at::ScalarType dtype) {
  return std::make_unique<AudioClassifier>(model, config, dtype);
}

}  // namespace weft::whisper

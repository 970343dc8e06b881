#include "resnet.hpp"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <weft/nn/batch_norm.hpp>
#include <weft/nn/layers.hpp>
#include <weft/nn/row_labels.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace resnet {

namespace {

using weft::Batch;
using weft::State;
namespace nn = weft::nn;

constexpr int64_t kSide = 32, kGroups = 4, kBlocks = 2;  // blocks of a group
constexpr const char* kHidden = "x";                     // (B, C, H, W)

// A convolution without a bias, which the batch normalisation behind it has.
class Convolution final : public nn::Layer {
 public:
  Convolution(int64_t in, int64_t out, int64_t size, int64_t stride, at::ScalarType dtype)
      : stride_(stride), padding_(size / 2) {
    weight_ = register_parameter(
        "weight", at::empty({out, in, size, size}, at::TensorOptions().dtype(dtype).device(at::kMeta)));
  }
  std::string kind() const override { return "Convolution"; }
  at::Tensor operator()(const at::Tensor& x) const {
    return at::conv2d(x, weight_, {}, {stride_, stride_}, {padding_, padding_});
  }

 private:
  const int64_t stride_, padding_;
  at::Tensor weight_;
};

// Registers a convolution and its normalisation in a module, and computes both.
struct Normed {
  Normed(torch::nn::Module& module, const std::pair<const char*, const char*>& names,
         std::shared_ptr<Convolution> made, int64_t channels, const Options& options, at::ScalarType dtype)
      : convolution(module.register_module(names.first, std::move(made))),
        norm(module.register_module(
            names.second,
            std::make_shared<nn::BatchNorm>(
                channels, nn::BatchNorm::Options{.synchronised = options.synchronised}, dtype))) {}
  at::Tensor operator()(const at::Tensor& x) const { return (*norm)((*convolution)(x)); }

  std::shared_ptr<Convolution> convolution;
  std::shared_ptr<nn::BatchNorm> norm;
};

Normed normed(torch::nn::Module& module, const std::pair<const char*, const char*>& names, int64_t in,
              int64_t out, int64_t size, int64_t stride, const Options& options, at::ScalarType dtype) {
  return {module, names, std::make_shared<Convolution>(in, out, size, stride, dtype), out, options, dtype};
}

// x: (B, in, H, W) -> (B, out, H / stride, W / stride)
class Block final : public nn::Layer {
 public:
  Block(int64_t in, int64_t out, int64_t stride, const Options& options, at::ScalarType dtype)
      : first_(normed(*this, {"conv1", "bn1"}, in, out, 3, stride, options, dtype)),
        second_(normed(*this, {"conv2", "bn2"}, out, out, 3, 1, options, dtype)) {
    if (stride == 1 && in == out) return;
    const auto downsample = register_module("downsample", std::make_shared<torch::nn::Module>("downsample"));
    shortcut_ = std::make_unique<Normed>(normed(*downsample, {"0", "1"}, in, out, 1, stride, options, dtype));
  }
  std::string kind() const override { return "Block"; }
  at::Tensor operator()(const at::Tensor& x) const {
    const at::Tensor y = second_(first_(x).relu());
    return (y + (shortcut_ ? (*shortcut_)(x) : x)).relu();
  }

 private:
  const Normed first_, second_;
  std::unique_ptr<Normed> shortcut_;  // null where the shapes are alike
};

class Resnet final : public nn::Model {
 public:
  Resnet(const Options& options, at::ScalarType dtype)
      : Model(weft::Config::parse(R"({"model_type": "own_resnet", "num_labels": )" +
                                      std::to_string(options.classes) +
                                      ", \"width\": " + std::to_string(options.width) + "}",
                                  "resnet")),
        options_(options),
        dtype_(dtype),
        stem_(normed(*this, {"conv1", "bn1"}, 3, options.width, 3, 1, options, dtype)) {
    units_.push_back(nn::make_unit("stem", {stem_.convolution.get(), stem_.norm.get()}, [this](State& state) {
      state.set(kHidden, stem_(state.at("pixel_values")).relu());
      state.erase("pixel_values");
    }));
    fields_.push_back({options.width, kSide});
    for (int64_t group = 0; group < kGroups; ++group) add_group(group);
    fc_ = register_module("fc",
                          std::make_shared<nn::Linear>(fields_.back().first, options.classes, true, dtype));
    units_.push_back(nn::make_unit("head", {fc_.get()}, [this](State& state) {
      state.set("logits", (*fc_)(state.at(kHidden).mean({2, 3})));
      state.erase(kHidden);
    }));
  }

  std::string architecture() const override { return "OwnResnet"; }
  std::vector<nn::Unit*> units() override {
    std::vector<nn::Unit*> units;
    for (const auto& unit : units_) units.push_back(unit.get());
    return units;
  }
  State input(const Batch& batch) const override {
    return {{"pixel_values", batch.at("pixel_values").to(dtype_)}};
  }
  State outputs(const State& last) const override { return last; }

  // A batch of mixtures (weft/data/image_changes.hpp) has the probabilities of the classes.
  std::vector<nn::LossTerm> loss(const State& last, const Batch& batch) const override {
    const at::Tensor& logits = last.at("logits");
    if (const at::Tensor* const shares = batch.find("label_probabilities"))
      return {{"loss", 1, -(logits.log_softmax(-1) * shares->to(logits.options())).sum()}};
    return {{"loss", 1, nn::RowLabels{batch.at("labels")}.cross_entropy(logits)}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    return {{"loss", nn::RowLabels{batch.at("labels")}.count()}};
  }
  std::vector<weft::Metric> metrics(const State& outputs, const Batch& batch) const override {
    return {nn::RowLabels{batch.at("labels")}.accuracy(outputs.at("logits"))};
  }

  std::vector<nn::FieldShape> boundary(const Batch& batch, size_t index) const override {
    const at::Tensor& pixels = batch.at("pixel_values");
    if (index == 0) return {{"pixel_values", pixels.sizes().vec(), dtype_, false}};
    const auto [channels, side] = fields_.at(index - 1);
    return {{kHidden, {pixels.size(0), channels, side, side}, dtype_, true}};
  }
  // Convolutions begin as He et al. propose (arXiv:1502.01852), by the number of their outputs.
  nn::Initial initial(std::string_view parameter) const override {
    if (parameter.ends_with("bias")) return nn::Initial::constant(0);
    const at::IntArrayRef shape = named_parameters()[std::string(parameter)].sizes();
    if (shape.size() == 1) return nn::Initial::constant(1);
    if (shape.size() == 2) return nn::Initial::normal(0, 1 / std::sqrt(static_cast<double>(shape[1])));
    return nn::Initial::normal(0, std::sqrt(2 / static_cast<double>(shape[0] * shape[2] * shape[3])));
  }

 private:
  void add_group(int64_t group) {
    const int64_t out = options_.width << group;
    std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
        *this, "layer" + std::to_string(group + 1), kBlocks,
        [&](int64_t block) {
          const bool halves = group > 0 && block == 0;
          const auto [in, side] = fields_.back();
          fields_.push_back({out, halves ? side / 2 : side});
          return std::make_shared<Block>(in, out, halves ? 2 : 1, options_, dtype_);
        },
        [](const Block& block, State& state) { state.set(kHidden, block(state.at(kHidden))); });
    for (auto& unit : blocks) units_.push_back(std::move(unit));
  }

  const Options options_;
  const at::ScalarType dtype_;
  const Normed stem_;
  std::shared_ptr<nn::Linear> fc_;
  std::vector<std::unique_ptr<nn::Unit>> units_;
  std::vector<std::pair<int64_t, int64_t>> fields_;  // channels and side of kHidden behind each unit
};

}  // namespace

std::shared_ptr<nn::Model> make_model(const Options& options, at::ScalarType dtype) {
  return std::make_shared<Resnet>(options, dtype);
}

}  // namespace resnet

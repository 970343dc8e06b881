// ViT (Dosovitskiy et al., An image is worth 16x16 words: transformers for image recognition at scale,
// arXiv:2010.11929): a class token before the patches of an image, learned positions, and pre-norm blocks of
// attention and MLP. Shapes: N images, T positions, P = T - 1 patches, E = hidden_size, H heads, D =
// head_dim.
#include "vit_model.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <array>

#include "vit_heads.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/attention_dropout.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/drop_path.hpp"
#include "weft/nn/first_position.hpp"
#include "weft/nn/image_model.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::vit {

namespace {

class Embeddings : public nn::Layer {
 public:
  Embeddings(const VitConfig& config, bool masks, at::ScalarType dtype);
  // pixels: (N, C, H, W) -> (N, T, E), or fewer positions if a plan splits the sequence. Patches
  // where `masked` (N, P) is true become the mask token; it may be undefined.
  at::Tensor operator()(const at::Tensor& pixels, const at::Tensor& masked) const;
  std::string kind() const override { return "Embeddings"; }

  at::Tensor cls_token, mask_token, position_embeddings;  // without masks there is no mask_token
  std::shared_ptr<nn::PatchConvolution> projection;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::Identity> stream_begin;  // where a plan can split the sequence

 private:
  const nn::HeightWidth grid_;
};

class SelfAttention : public nn::Attention {
 public:
  SelfAttention(const VitConfig& config, at::ScalarType dtype);
  // Computes attention of the queried positions to all, without the output projection. queried: (N, Q, E), x:
  // (N, T, E) -> (N, Q, H D)
  at::Tensor operator()(const at::Tensor& queried, const at::Tensor& x) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }

  int64_t num_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> query, key, value;
  std::shared_ptr<nn::Dropout> dropout;  // of the probabilities
};

// The end of a branch: a linear layer and the dropout after it.
class Output : public nn::Layer {
 public:
  Output(const VitConfig& config, int64_t in, double drop_path, at::ScalarType dtype);
  at::Tensor added(const at::Tensor& residual, const at::Tensor& x) const {
    if (!drop_path) return dropout->added(residual, (*dense)(x));
    return residual + (*drop_path)((*dropout)((*dense)(x)));
  }
  std::string kind() const override { return "Output"; }

  std::shared_ptr<nn::Linear> dense;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::DropPath> drop_path;  // null where no branch is left out
};

class Block : public nn::Layer {
 public:
  // Both branches are left out with the probability `drop_path`. With `first_alone` nobody reads other
  // positions of the result than the first.
  Block(const VitConfig& config, double drop_path, bool first_alone, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // (N, T, E) -> (N, T, E)
  std::string kind() const override { return "Block"; }

  std::shared_ptr<nn::LayerNorm> layernorm_before, layernorm_after;
  std::shared_ptr<SelfAttention> attention;
  std::shared_ptr<nn::Linear> intermediate;
  std::shared_ptr<nn::Activation> act;
  std::shared_ptr<Output> attention_output, output;

 private:
  bool can_skip_positions() const;

  const bool first_alone_;
  const int64_t num_heads_;  // of the whole layer
};

Embeddings::Embeddings(const VitConfig& config, bool masks, at::ScalarType dtype) : grid_(config.grid()) {
  const auto parameter = [&](const char* name, int64_t positions) {
    const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(at::kMeta);
    return register_parameter(name, at::empty({1, positions, config.hidden_size}, options));
  };
  cls_token = parameter("cls_token", 1);
  if (masks) mask_token = parameter("mask_token", 1);
  position_embeddings = parameter("position_embeddings", 1 + grid_.area());
  projection = nn::submodule(*this, "patch_embeddings")
                   .register_module("projection",
                                    std::make_shared<nn::PatchConvolution>(
                                        config.num_channels, config.hidden_size, config.patch_size, dtype));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.hidden_dropout_prob));
  stream_begin = register_module("stream_begin", std::make_shared<nn::Identity>());
}

at::Tensor Embeddings::operator()(const at::Tensor& pixels, const at::Tensor& masked) const {
  const at::Tensor projected = (*projection)(pixels);
  at::Tensor patches = projected.flatten(2).transpose(1, 2);
  if (masked.defined()) patches = at::where(masked.unsqueeze(-1), mask_token, patches);
  const at::Tensor x = at::cat({cls_token.expand({pixels.size(0), -1, -1}), patches}, 1);
  const nn::HeightWidth grid = {projected.size(2), projected.size(3)};
  return (*stream_begin)((*dropout)(x + nn::resized_positions(position_embeddings, 1, grid_, grid)));
}

SelfAttention::SelfAttention(const VitConfig& config, at::ScalarType dtype)
    : num_heads(config.num_attention_heads) {
  const auto linear = [&](const char* name) {
    return register_module(
        name, std::make_shared<nn::Linear>(config.hidden_size, config.num_attention_heads * config.head_dim,
                                           config.qkv_bias, dtype));
  };
  query = linear("query");
  key = linear("key");
  value = linear("value");
  dropout =
      register_module("dropout", std::make_shared<nn::AttentionDropout>(config.attention_probs_dropout_prob));
}

at::Tensor SelfAttention::operator()(const at::Tensor& queried, const at::Tensor& x) const {
  std::vector<const nn::Linear*> of_x = {key.get(), value.get()};
  if (queried.is_same(x)) of_x.push_back(query.get());
  std::vector<at::Tensor> mixed = nn::linears(x, of_x);
  if (mixed.size() == 2) mixed.push_back((*query)(queried));
  const auto heads = [&](size_t i) { return mixed[i].unflatten(-1, {num_heads, -1}); };
  nn::AttentionOptions options;
  if (is_training()) options.dropout = dropout->probability;
  return attend(heads(2), heads(0), heads(1), {}, options);
}

Output::Output(const VitConfig& config, int64_t in, double drop_path, at::ScalarType dtype) {
  dense = register_module("dense", std::make_shared<nn::Linear>(in, config.hidden_size, true, dtype));
  dropout = register_module("dropout", std::make_shared<nn::Dropout>(config.hidden_dropout_prob));
  if (drop_path > 0)
    this->drop_path = register_module("drop_path", std::make_shared<nn::DropPath>(drop_path));
}

Block::Block(const VitConfig& config, double drop_path, bool first_alone, at::ScalarType dtype)
    : first_alone_(first_alone), num_heads_(config.num_attention_heads) {
  const auto norm = [&](const char* name) {
    return register_module(name,
                           std::make_shared<nn::LayerNorm>(config.hidden_size, config.layer_norm_eps, dtype));
  };
  layernorm_before = norm("layernorm_before");
  torch::nn::Module& around = nn::submodule(*this, "attention");
  attention = around.register_module("attention", std::make_shared<SelfAttention>(config, dtype));
  attention_output = around.register_module(
      "output",
      std::make_shared<Output>(config, config.num_attention_heads * config.head_dim, drop_path, dtype));
  layernorm_after = norm("layernorm_after");
  torch::nn::Module& inner = nn::submodule(*this, "intermediate");
  intermediate = inner.register_module(
      "dense", std::make_shared<nn::Linear>(config.hidden_size, config.intermediate_size, true, dtype));
  act = inner.register_module("act", std::make_shared<nn::Activation>(config.hidden_act));
  output =
      register_module("output", std::make_shared<Output>(config, config.intermediate_size, drop_path, dtype));
}

// Not with dropout, whose masks are those of all positions on every layout, nor where a plan divides the
// heads, because it tells the bytes that all positions send.
bool Block::can_skip_positions() const {
  return first_alone_ && nn::has_all_positions() && attention->num_heads == num_heads_ &&
         !attention->operation && !attention->dropout->drops() && !output->dropout->drops();
}

at::Tensor Block::operator()(const at::Tensor& x) const {
  const bool skips = can_skip_positions();
  const auto read = [&](const at::Tensor& all) { return skips ? nn::first_position(all) : all; };
  const nn::Branch first = layernorm_before->branch(x);
  const nn::Branch second = layernorm_after->branch(
      attention_output->added(read(first.kept), (*attention)(read(first.normed), first.normed)));
  const at::Tensor y = output->added(second.kept, act->of_linear(*intermediate, second.normed));
  return skips ? nn::with_unread_positions(y, x.size(1)) : y;
}

struct Architecture {
  std::string_view name, prefix;
  bool masks;        // whether patches can be masked
  bool first_alone;  // whether the head reads the class token alone
  std::unique_ptr<nn::Head> (*make_head)(torch::nn::Module& model, const VitConfig& config,
                                         at::ScalarType dtype);
};

constexpr std::array<Architecture, 3> kArchitectures = {{
    {"ViTModel", "", false, false, make_pooler},
    {"ViTForImageClassification", "vit.", false, true, make_image_classifier},
    {"ViTForMaskedImageModeling", "vit.", true, false, make_reconstruction},
}};

class VitModel final : public nn::StackModel, public nn::ImageModel {
 public:
  VitModel(const Config& config, const VitConfig& vit, const Architecture& architecture,
           at::ScalarType dtype);
  int64_t num_channels() const override { return vit_.num_channels; }
  nn::HeightWidth image_size() const override { return vit_.image_size; }
  std::vector<std::string> image_processors() const override {
    return {"ViTImageProcessor", "ViTFeatureExtractor"};
  }
  nn::Initial initial(std::string_view parameter) const override;
  bool may_begin_new(std::string_view parameter) const override;

 private:
  const VitConfig vit_;
};

VitModel::VitModel(const Config& config, const VitConfig& vit, const Architecture& architecture,
                   at::ScalarType dtype)
    : StackModel(config,
                 {std::string(architecture.name), std::string(architecture.prefix), vit.hidden_size, dtype}),
      vit_(vit) {
  const auto embeddings =
      base().register_module("embeddings", std::make_shared<Embeddings>(vit, architecture.masks, dtype));
  auto prologue = nn::make_unit(
      "prologue", {embeddings.get(), embeddings->stream_begin.get()},
      [embeddings = embeddings.get()](State& state) {
        const at::Tensor pixels = nn::take(state, nn::kPixels);
        state.set(nn::kHidden, (*embeddings)(pixels, nn::find_or_undefined(state, nn::kMaskedPatches)));
      });
  std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
      base(), "encoder.layer", vit.num_hidden_layers,
      [&](int64_t layer) {
        const bool is_last = layer + 1 == vit.num_hidden_layers;
        const double drop_path = nn::drop_path_probability(vit.drop_path_rate, layer, vit.num_hidden_layers);
        return std::make_shared<Block>(vit, drop_path, is_last && architecture.first_alone, dtype);
      },
      [](const Block& block, State& state) { state.set(nn::kHidden, block(state.at(nn::kHidden))); });
  const auto layernorm = base().register_module(
      "layernorm", std::make_shared<nn::LayerNorm>(vit.hidden_size, vit.layer_norm_eps, dtype));
  assemble(nn::make_pixel_inputs({.channels = vit.num_channels,
                                  .image = vit.image_size,
                                  .patch = vit.patch_size,
                                  .tokens = 1,
                                  .resizes = vit.interpolate_pos_encoding,
                                  .resizes_key = "interpolate_pos_encoding",
                                  .dtype = dtype}),
           std::move(prologue), std::move(blocks), nn::last_layer(layernorm),
           architecture.make_head(*this, vit_, dtype));
}

nn::Initial VitModel::initial(std::string_view parameter) const {
  const auto within = [&](std::string_view part) { return parameter.find(part) != std::string_view::npos; };
  if (parameter.ends_with("bias") || within("mask_token")) return nn::Initial::constant(0);
  if (within("layernorm")) return nn::Initial::constant(1);
  const double range = vit_.initializer_range;
  // Hugging Face cuts these off at 2 and -2, which are 100 standard deviations of the default range, and
  // fails for a range of 0, which gives zeros here.
  if (within("cls_token") || within("position_embeddings")) return nn::Initial::normal(0, range);
  return nn::Initial::weights(range);
}

// Only one class each has a pooler and a mask token.
bool VitModel::may_begin_new(std::string_view parameter) const {
  return Model::may_begin_new(parameter) || parameter.starts_with("pooler.") ||
         parameter.ends_with("mask_token");
}

// Throws INVALID_ARGUMENT for images whose patches make no square, which Hugging Face's class does not
// reconstruct.
void require_square(const Config& config, const VitConfig& vit, const Architecture& architecture) {
  if (!architecture.masks || (vit.grid().is_square() && vit.patch_size.is_square())) return;
  nn::refuse(config,
             std::string(architecture.name) +
                 " reconstructs images with as many rows of patches as columns, of square patches, as "
                 "in Hugging Face; \"image_size\" is " +
                 config.json("image_size") + ", \"patch_size\" " + config.json("patch_size"));
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  const Architecture& found = nn::find_architecture(kArchitectures, "vit", architecture);
  const VitConfig vit = VitConfig::read(config);
  require_square(config, vit, found);
  return std::make_shared<VitModel>(config, vit, found, dtype);
}

}  // namespace weft::vit

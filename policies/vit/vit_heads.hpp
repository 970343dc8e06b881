// The heads of the ViT classes. Each reads the class token, the first position, or the patches after it.
#pragma once

#include <memory>

#include "vit_config.hpp"
#include "weft/nn/head.hpp"

namespace weft::vit {

// Returns the head of ViTModel, whose outputs are "last_hidden_state" and "pooler_output", a layer of the
// class token. Registers "pooler" in `model`.
std::unique_ptr<nn::Head> make_pooler(torch::nn::Module& model, const VitConfig& config,
                                      at::ScalarType dtype);

// Returns a head that classifies an image by its class token. Registers "classifier" in `model`.
std::unique_ptr<nn::Head> make_image_classifier(torch::nn::Module& model, const VitConfig& config,
                                                at::ScalarType dtype);

// Returns a head that computes the pixels of each patch ("reconstruction") and, if the batch has
// "bool_masked_pos", their mean absolute error over the masked patches (Xie et al., SimMIM: a simple
// framework for masked image modeling, arXiv:2111.09886). Registers "decoder" in `model`. `config` must have
// square images and patches.
std::unique_ptr<nn::Head> make_reconstruction(torch::nn::Module& model, const VitConfig& config,
                                              at::ScalarType dtype);

}  // namespace weft::vit

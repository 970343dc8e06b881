#include "trunk.hpp"

#include <ATen/ops/arange.h>

#include "weft/nn/batch_fields.hpp"

namespace weft::gpt2 {

Trunk::Trunk(torch::nn::Module& root, const Gpt2Config& config, at::ScalarType dtype) {
  wte = root.register_module("wte", std::make_shared<nn::Embedding>(config.vocab_size, config.n_embd, dtype));
  wpe =
      root.register_module("wpe", std::make_shared<nn::Embedding>(config.n_positions, config.n_embd, dtype));
  drop = root.register_module("drop", std::make_shared<nn::Dropout>(config.embd_pdrop));
  const auto list = root.register_module("h", std::make_shared<torch::nn::Module>("h"));
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    blocks.push_back(
        list->register_module(std::to_string(layer), std::make_shared<Block>(config, layer, dtype)));
  }
  ln_f = root.register_module(
      "ln_f", std::make_shared<nn::LayerNorm>(config.n_embd, config.layer_norm_epsilon, dtype));
}

Prologue::Prologue(const Trunk& trunk)
    : Unit("prologue"), wte_(uses(*trunk.wte)), wpe_(uses(*trunk.wpe)), drop_(uses(*trunk.drop)) {}

void Prologue::forward(State& state) {
  const at::Tensor ids = state.at(nn::kInputIds);
  const at::Tensor* given = state.find(nn::kPositions);
  const at::Tensor positions = given ? *given : at::arange(ids.size(1), ids.options()).unsqueeze(0);
  at::Tensor hidden = wte_(ids) + wpe_(positions);
  if (const at::Tensor* types = state.find(nn::kTokenTypes)) hidden = hidden + wte_(*types);
  for (const char* name : {nn::kInputIds, nn::kPositions, nn::kTokenTypes}) state.erase(name);
  state.set(nn::kHidden, drop_(hidden));
}

BlockUnit::BlockUnit(std::string name, Block& block) : Unit(std::move(name)), block_(uses(block)) {}

void BlockUnit::forward(State& state) {
  const at::Tensor* mask = state.find(nn::kAttentionMask);
  state.set(nn::kHidden, block_(state.at(nn::kHidden), mask ? *mask : at::Tensor()));
}

}  // namespace weft::gpt2

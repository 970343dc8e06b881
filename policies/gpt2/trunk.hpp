// The part that all GPT-2 classes share: embeddings, blocks and the last layer norm, and its units.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "block.hpp"
#include "weft/nn/unit.hpp"

namespace weft::gpt2 {

struct Trunk {
  // Registers its modules in `root` under Hugging Face's names.
  Trunk(torch::nn::Module& root, const Gpt2Config& config, at::ScalarType dtype);

  std::shared_ptr<nn::Embedding> wte, wpe;
  std::shared_ptr<nn::Dropout> drop;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<nn::LayerNorm> ln_f;
};

// Token ids to hidden states.
class Prologue final : public nn::Unit {
 public:
  explicit Prologue(const Trunk& trunk);
  void forward(State& state) override;

 private:
  const nn::Embedding& wte_;
  const nn::Embedding& wpe_;
  const nn::Dropout& drop_;
};

class BlockUnit final : public nn::Unit {
 public:
  BlockUnit(std::string name, Block& block);
  void forward(State& state) override;

 private:
  const Block& block_;
};

}  // namespace weft::gpt2

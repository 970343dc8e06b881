// The encoder and the decoder of T5, each a stack of blocks between an embedding and a norm, and their units.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "block.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/unit.hpp"

namespace weft::t5 {

// Fields of the State beside nn::kInputIds, nn::kAttentionMask and nn::kHidden (of the stack that is at
// work). N rows, S positions of the encoder, T of the decoder.
inline constexpr const char* kDecoderInputIds = "decoder_input_ids";            // (N, T)
inline constexpr const char* kDecoderAttentionMask = "decoder_attention_mask";  // additive, (N, 1, 1, T)
inline constexpr const char* kDecoderHidden = "decoder_hidden";  // (N, T, E), waits for the encoder
inline constexpr const char* kPositionBias = "position_bias";    // as Attention::position_bias makes it
inline constexpr const char* kEncoderOutput = "encoder_last_hidden_state";  // (N, S, E), before stream_end
inline constexpr const char* kSource = "source";  // the same, as the decoder's blocks read it

struct Stack {
  // Registers its modules in `root`, the encoder or decoder, under Hugging Face's names. `shared` is the
  // embedding of all stacks.
  Stack(torch::nn::Module& root, Side side, const std::shared_ptr<nn::Embedding>& shared,
        const T5Config& config, at::ScalarType dtype);

  std::shared_ptr<nn::Embedding> embed_tokens;
  // Where the stack's sequence begins (ids pass) and ends.
  std::shared_ptr<nn::Identity> stream_begin, stream_end;
  // Of an encoder: what the blocks of a decoder attend to passes here, once for all of them.
  std::shared_ptr<nn::Identity> source;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<nn::RmsNorm> final_layer_norm;
  std::shared_ptr<nn::Dropout> dropout;
};

// The ids of both stacks to hidden states, so that no later unit needs the embedding.
class Prologue final : public nn::Unit {
 public:
  Prologue(const Stack& encoder, const Stack* decoder);  // `decoder` may be null
  void forward(State& state) override;

 private:
  const nn::Embedding& embed_tokens_;
  const Stack *const encoder_, *const decoder_;  // the decoder may be null
};

class BlockUnit final : public nn::Unit {
 public:
  BlockUnit(std::string name, Block& block, Side side);
  void forward(State& state) override;

 private:
  const Block& block_;
  const Side side_;
};

// After the last block of the encoder, where a decoder follows.
class EncoderEnd final : public nn::Unit {
 public:
  explicit EncoderEnd(const Stack& encoder);
  void forward(State& state) override;

 private:
  const nn::RmsNorm& final_layer_norm_;
  const nn::Dropout& dropout_;
  const nn::Identity& source_;
};

}  // namespace weft::t5

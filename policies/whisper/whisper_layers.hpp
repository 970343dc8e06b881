// The layers of Whisper (Radford et al., Robust speech recognition via large-scale weak supervision,
// arXiv:2212.04356): convolutions over time, and pre-norm blocks of attention and MLP. Shapes: N recordings,
// M mel bins, F frames, S = F / 2 positions of the encoder, T positions of the decoder, E = d_model, H heads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/nn/encoder_decoder.hpp"
#include "weft/nn/layers.hpp"
#include "whisper_config.hpp"

namespace weft::whisper {

enum class Side { kEncoder, kDecoder };

// Computes a convolution over time of three adjacent frames, like torch.nn.Conv1d with kernel_size 3 and
// padding 1.
class Convolution : public nn::Layer {
 public:
  Convolution(int64_t in, int64_t out, int64_t stride, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // x: (N, in, F) -> (N, out, ceil(F / stride))
  std::string kind() const override { return "Convolution"; }

  at::Tensor weight, bias;  // (out, in, 3), (out)

 private:
  const int64_t stride_;
};

// Attention whose keys have no bias, which would not change it.
class Attention : public nn::Attention {
 public:
  // If `causal`, a position attends to itself and those before it.
  Attention(const WhisperConfig& config, int64_t heads, bool causal, at::ScalarType dtype);
  // Computes attention to `source` (N, S, E), or to x itself if it is undefined. x: (N, T, E) -> (N, T, E);
  // `mask` broadcasts to (N, H, T, S), or is undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& source, const at::Tensor& mask) const;
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }

  int64_t num_heads;  // heads of this shard of the layer
  std::shared_ptr<nn::Linear> k_proj, v_proj, q_proj, out_proj;
  std::shared_ptr<nn::Dropout> attn_dropout;  // of the probabilities

 private:
  const bool causal_;
};

class Block : public nn::Layer {
 public:
  Block(const WhisperConfig& config, Side side, at::ScalarType dtype);
  // x: (N, T, E) -> (N, T, E). For a decoder, source: (N, S, E), and padding: an additive mask (N, 1, 1, T)
  // of x, or undefined.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& source = {},
                        const at::Tensor& padding = {}) const;
  std::string kind() const override { return "Block"; }

  std::shared_ptr<Attention> self_attn, encoder_attn;  // an encoder has no encoder_attn and no norm of it
  std::shared_ptr<nn::LayerNorm> self_attn_layer_norm, encoder_attn_layer_norm, final_layer_norm;
  std::shared_ptr<nn::Linear> fc1, fc2;
  std::shared_ptr<nn::Activation> activation_fn;
  std::shared_ptr<nn::Dropout> activation_dropout;  // between activation and fc2
  std::shared_ptr<nn::Dropout> dropout;             // of what attention and MLP add
};

// Cuts values of an fp16 tensor off 1000 below the largest one, as transformers does after each block of the
// encoder. Returns tensors of other dtypes unchanged.
at::Tensor finite(const at::Tensor& x);

// What the encoder and the decoder have in common. Registers its layers in `root` under Hugging Face's names.
struct StackLayers {
  StackLayers(torch::nn::Module& root, const WhisperConfig& config, Side side, bool feeds_decoder,
              at::ScalarType dtype);

  nn::SequencePlaces places;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<nn::LayerNorm> layer_norm;
  std::shared_ptr<nn::Dropout> dropout;  // of the embeddings
};

struct EncoderLayers : StackLayers {
  EncoderLayers(torch::nn::Module& root, const WhisperConfig& config, bool feeds_decoder,
                at::ScalarType dtype);
  // Computes the convolutions. features: (N, M, F) -> (N, S, E). frames: (N), the frames of each recording
  // that SpecAugment masks, or undefined for all.
  at::Tensor convolved(const at::Tensor& features, const at::Tensor& frames) const;
  // Adds the positions. x: (N, S, E) -> (N, S, E), or fewer positions if a plan splits the sequence.
  at::Tensor placed(const at::Tensor& x) const;

  std::shared_ptr<Convolution> conv1, conv2;
  std::shared_ptr<nn::Embedding> embed_positions;  // sines and cosines, which are not trained
  std::shared_ptr<nn::Identity> stream_split;      // where a plan can split the sequence

 private:
  const SpecAugment spec_augment_;
};

struct DecoderLayers : StackLayers {
  DecoderLayers(torch::nn::Module& root, const WhisperConfig& config, at::ScalarType dtype);
  // ids: (N, T) -> (N, T, E). positions: (1 or N, T), or undefined for 0 ... T - 1.
  at::Tensor embedded(const at::Tensor& ids, const at::Tensor& positions) const;
  std::vector<torch::nn::Module*> modules() const;  // in the order in which embedded() runs them

  std::shared_ptr<nn::Embedding> embed_tokens, embed_positions;
};

}  // namespace weft::whisper

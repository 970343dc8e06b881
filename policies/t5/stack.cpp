#include "stack.hpp"

#include "weft/nn/head.hpp"

namespace weft::t5 {

namespace {

at::Tensor find(const State& state, std::string_view name) {
  const at::Tensor* field = state.find(name);
  return field ? *field : at::Tensor();
}

}  // namespace

Stack::Stack(torch::nn::Module& root, Side side, const std::shared_ptr<nn::Embedding>& shared,
             const T5Config& config, at::ScalarType dtype) {
  const auto place = [&](const char* name) {
    return root.register_module(name, std::make_shared<nn::Identity>());
  };
  embed_tokens = root.register_module("embed_tokens", shared);
  stream_begin = place("stream_begin");
  stream_end = place("stream_end");
  if (side == Side::kEncoder) source = place("source");
  const auto list = root.register_module("block", std::make_shared<torch::nn::Module>("block"));
  const int64_t layers = side == Side::kEncoder ? config.num_layers : config.num_decoder_layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    blocks.push_back(list->register_module(std::to_string(layer),
                                           std::make_shared<Block>(config, side, layer == 0, dtype)));
  }
  final_layer_norm = root.register_module(
      "final_layer_norm", std::make_shared<nn::RmsNorm>(config.d_model, config.layer_norm_epsilon, dtype));
  dropout = root.register_module("dropout", std::make_shared<nn::Dropout>(config.dropout_rate));
}

Prologue::Prologue(const Stack& encoder, const Stack* decoder)
    : Unit("prologue"), embed_tokens_(uses(*encoder.embed_tokens)), encoder_(&encoder), decoder_(decoder) {
  for (const Stack* stack : {encoder_, decoder_}) {
    if (!stack) continue;
    uses(*stack->stream_begin);
    uses(*stack->dropout);
  }
}

void Prologue::forward(State& state) {
  const auto embedded = [&](const Stack& stack, const char* ids) {
    return (*stack.dropout)(embed_tokens_((*stack.stream_begin)(nn::take(state, ids))));
  };
  state.set(nn::kHidden, embedded(*encoder_, nn::kInputIds));
  if (decoder_) state.set(kDecoderHidden, embedded(*decoder_, kDecoderInputIds));
}

BlockUnit::BlockUnit(std::string name, Block& block, Side side)
    : Unit(std::move(name)), block_(uses(block)), side_(side) {}

void BlockUnit::forward(State& state) {
  const at::Tensor hidden = state.at(nn::kHidden), padding = find(state, nn::kAttentionMask);
  const Attention& own = *block_.self_attention->inner;
  if (side_ == Side::kEncoder) {
    if (own.relative_attention_bias) state.set(kPositionBias, own.position_bias(hidden.size(1), padding));
    state.set(nn::kHidden, block_(hidden, state.at(kPositionBias)));
    return;
  }
  if (own.relative_attention_bias) {
    const at::Tensor own_padding = find(state, kDecoderAttentionMask);
    state.erase(kDecoderAttentionMask);
    state.set(kPositionBias, own.position_bias(hidden.size(1), own_padding));
  }
  state.set(nn::kHidden, block_(hidden, state.at(kPositionBias), state.at(kSource), padding));
}

EncoderEnd::EncoderEnd(const Stack& encoder)
    : Unit("encoder.end"),
      final_layer_norm_(uses(*encoder.final_layer_norm)),
      dropout_(uses(*encoder.dropout)),
      source_(uses(*encoder.source)) {}

void EncoderEnd::forward(State& state) {
  const at::Tensor encoded = dropout_(final_layer_norm_(state.at(nn::kHidden)));
  state.set(nn::kHidden, nn::take(state, kDecoderHidden));
  state.erase(kPositionBias);
  state.set(kEncoderOutput, encoded);
  state.set(kSource, source_(encoded));
}

}  // namespace weft::t5

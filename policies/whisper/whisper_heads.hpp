// The head of WhisperForAudioClassification. Shapes: N recordings, S positions, L layers, E = d_model.
#pragma once

#include <memory>

#include "weft/nn/head.hpp"
#include "whisper_config.hpp"

namespace weft::whisper {

// Returns a head that projects each position, averages over the positions, and classifies the mean. Registers
// "projector" and "classifier" in `model`. With use_weighted_layer_sum it reads the inputs of all blocks and
// the normalized output of the last one, side by side (N, S, (L + 1) E), and first sums these with learned
// weights; it then registers the parameter "layer_weights" too.
std::unique_ptr<nn::Head> make_audio_classifier(torch::nn::Module& model, const WhisperConfig& config,
                                                at::ScalarType dtype);

}  // namespace weft::whisper

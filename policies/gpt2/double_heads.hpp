// The heads of GPT2DoubleHeadsModel.
#pragma once

#include <memory>

#include "gpt2_config.hpp"
#include "weft/nn/language_head.hpp"

namespace weft::gpt2 {

// Returns a head that predicts tokens, and which of several choices is right, from the hidden state of one
// position per choice. Registers "lm_head" and "multiple_choice_head" in `model`.
std::unique_ptr<nn::Head> make_double_heads(torch::nn::Module& model, const Gpt2Config& config,
                                            nn::LanguageHead::Options options);

}  // namespace weft::gpt2

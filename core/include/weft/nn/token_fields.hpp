// The fields of models that read tokens, by Hugging Face's names. B samples, T positions; (B, choices, T) for
// (B, T) where a class has choices.
#pragma once

namespace weft::nn {

inline constexpr const char* kInputIds = "input_ids";  // (B, T)
inline constexpr const char* kAttentionMask =
    "attention_mask";                                         // (B, T), 1 or 0; in a State as masks.hpp says
inline constexpr const char* kTokenTypes = "token_type_ids";  // (B, T)
inline constexpr const char* kPositions = "position_ids";     // (1, T) or (B, T); absent: 0 ... T - 1

// Of the decoder, where an encoder has fields of its own.
inline constexpr const char* kDecoderInputIds = "decoder_input_ids";
inline constexpr const char* kDecoderAttentionMask = "decoder_attention_mask";

}  // namespace weft::nn

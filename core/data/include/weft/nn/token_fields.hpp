// The names of the fields of models that read tokens; they are Hugging Face's. B samples, T positions.
// Classes with choices take (B, choices, T) in place of (B, T).
#pragma once

namespace weft::nn {

inline constexpr const char* kInputIds = "input_ids";  // (B, T)
inline constexpr const char* kAttentionMask =
    "attention_mask";                                         // (B, T), 1 or 0; in a State as masks.hpp says
inline constexpr const char* kTokenTypes = "token_type_ids";  // (B, T)
inline constexpr const char* kPositions = "position_ids";     // (1, T) or (B, T); absent: 0 ... T - 1
// (B, T): attention stays inside a document, tokens with equal ids that follow each other.
inline constexpr const char* kDocumentIds = "document_ids";

// The fields of the decoder in a model that also has an encoder.
inline constexpr const char* kDecoderInputIds = "decoder_input_ids";
inline constexpr const char* kDecoderAttentionMask = "decoder_attention_mask";
inline constexpr const char* kDecoderPositions = "decoder_position_ids";

}  // namespace weft::nn

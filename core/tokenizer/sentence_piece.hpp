// tokenizer.model, the file of SentencePiece (https://github.com/google/sentencepiece), for folders that have
// no tokenizer.json.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"

namespace weft::tokenizer {

// Returns what tokenizer.json would be of the bytes of tokenizer.model, and adds the tokens of roles to
// `config`, whose "tokenizer_class" says what stands around a text: nothing without one, "LlamaTokenizer" and
// "ChatGLMTokenizer" (ChatGLM2) what transformers and that model's own class put there. Throws DATA_LOSS,
// naming `path`, for a damaged file, UNIMPLEMENTED for other classes and for what Weft does not have.
nlohmann::json sentence_piece_parts(const std::string& bytes, const std::string& path,
                                    nlohmann::json& config);

// Returns the normalizer "SentencePiece" of these parts: replaces the longest entries of the map, removes
// spaces before, behind and between words, puts a space in front, and writes spaces as U+2581, as asked.
std::unique_ptr<Normalizer> make_sentence_piece_normalizer(const JsonPart& part);

// Returns the decoder "SentencePiece", which takes away the space in front of a text.
std::unique_ptr<Decoder> make_sentence_piece_decoder(const JsonPart& part);

}  // namespace weft::tokenizer

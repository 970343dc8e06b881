// The kinds of models.
#include <algorithm>

#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"

namespace weft::tokenizer {

std::unique_ptr<Model> make_model(const Json& json, const std::string& source) {
  const JsonPart part(json, "\"model\"", source);
  // Old files leave the type out.
  std::string type = part.text("type", "");
  if (type.empty() && part.find("merges")) type = "BPE";
  if (type.empty() && part.find("max_input_chars_per_word")) type = "WordPiece";
  if (type.empty() && part.find("unk_id")) type = "Unigram";
  if (type.empty()) part.wrong("type", "a text");
  if (type == "BPE") return make_byte_pairs(json, source);
  if (type == "Unigram" || type == "SentencePieceUnigram") return make_unigram(json, source);
  if (type == "WordPiece") return make_word_piece(json, source);
  if (type == "WordLevel") return make_word_level(json, source);
  part.unknown("type", type);
}

}  // namespace weft::tokenizer

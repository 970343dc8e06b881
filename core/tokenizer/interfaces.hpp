// The parts of a tokenizer, in the order in which a text passes them: normalizer, pre-tokenizer, model,
// post-processor; and the decoder, which turns tokens back into text. tokenizer.json names one kind of each.
// All texts are valid UTF-8. Objects do not change after they are made: any thread may use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/limits.hpp"
#include "tokenizer/token_table.hpp"

namespace weft::tokenizer {

// A part that works by a rule of tokenizer.json, whose name is for messages.
class Rule {
 public:
  explicit Rule(std::string name) : name_(std::move(name)) {}
  virtual ~Rule() = default;

 protected:
  Work work(Limits& limits) const { return {limits, name_}; }

 private:
  const std::string name_;
};

// The functions below throw RESOURCE_EXHAUSTED where the limits of a text end.
class Normalizer : public Rule {
 public:
  using Rule::Rule;
  virtual std::string normalize(std::string text, Limits& limits) const = 0;
};

// A text and the pieces of it that the model gets, one after the other. Pieces do not overlap; text between
// them is dropped.
struct Pieces {
  struct Piece {
    size_t begin = 0;
    size_t end = 0;
    bool first = false;  // begins where the whole input begins (Metaspace's prepend_scheme "first")
  };
  std::string text;
  std::vector<Piece> list;

  std::string_view at(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizer : public Rule {
 public:
  using Rule::Rule;
  // Cuts each piece into smaller ones, and may rewrite the text. Leaves out empty pieces.
  virtual void split(Pieces& pieces, Limits& limits) const = 0;
};

class Model : public Rule {
 public:
  using Rule::Rule;
  // Appends the ids of one piece, which is not empty.
  virtual void encode(std::string_view piece, std::vector<int64_t>& ids, Limits& limits) const = 0;
  virtual const TokenTable& tokens() const = 0;
};

class Decoder : public Rule {
 public:
  using Rule::Rule;
  // Changes the list of spellings of a sequence of tokens; the text is what remains, joined without spaces.
  virtual void decode(std::vector<std::string>& tokens, Limits& limits) const = 0;
};

// Make the part that an object of tokenizer.json describes; null and a missing object are no part (nullptr)
// for a normalizer, pre-tokenizer and decoder. `source` is the path of the file, for messages. Throw
// DATA_LOSS for a value that cannot be, UNIMPLEMENTED naming a type or a key that Weft does not have.
using Json = nlohmann::json;
std::unique_ptr<Normalizer> make_normalizer(const Json& part, const std::string& source);
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const Json& part, const std::string& source);
std::unique_ptr<Decoder> make_decoder(const Json& part, const std::string& source);
std::unique_ptr<Model> make_model(const Json& part, const std::string& source);

// The kinds that the functions above make with these.
std::unique_ptr<Model> make_byte_pairs(const Json& part, const std::string& source);
std::unique_ptr<Model> make_unigram(const Json& part, const std::string& source);
std::unique_ptr<Model> make_word_piece(const Json& part, const std::string& source);
std::unique_ptr<Model> make_word_level(const Json& part, const std::string& source);
std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer(const Json& part, const std::string& source);
std::unique_ptr<Decoder> make_word_piece_decoder(const Json& part, const std::string& source);

}  // namespace weft::tokenizer

// What stands before and behind the model "WordPiece": its pre-tokenizer and its decoder.
#include <array>
#include <utility>

#include "base/search.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/splitting.hpp"
#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// Cuts at white space, which is dropped, and makes each punctuation mark a piece.
class WordsAndPunctuation : public PreTokenizer {
 public:
  using PreTokenizer::PreTokenizer;
  void split(Pieces& pieces, Limits& limits) const override {
    cut_pieces(pieces, Behavior::kRemoved, work(limits), [](std::string_view text, Parts& parts) {
      size_t begin = 0;  // of a word
      for (size_t at = 0; at < text.size();) {
        const size_t before = at;
        const char32_t point = next_code_point(text, at);
        const bool is_space = is_white_space(point);
        if (!is_space && !is_punctuation(point)) continue;
        if (begin < before) parts.push_back({begin, before, false});
        parts.push_back({before, at, is_space});
        begin = at;
      }
      add_rest(parts, text.size());
    });
  }
};

class WordPieceDecoder : public Decoder {
 public:
  explicit WordPieceDecoder(const JsonPart& part)
      : Decoder(part.rule()), prefix_(part.text("prefix", "##")), cleanup_(part.flag("cleanup", true)) {}

  void decode(std::vector<std::string>& tokens, Limits&) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix_))
        token.erase(0, prefix_.size());
      else if (i > 0)
        token.insert(0, " ");
      if (cleanup_) clean_up(token);
    }
  }

 private:
  // Removes the spaces in front of punctuation and of the ends of contractions in English.
  static void clean_up(std::string& text) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {{
        {" .", "."},
        {" ?", "?"},
        {" !", "!"},
        {" ,", ","},
        {" ' ", "'"},
        {" n't", "n't"},
        {" 'm", "'m"},
        {" do not", " don't"},
        {" 's", "'s"},
        {" 've", "'ve"},
        {" 're", "'re"},
    }};
    for (const auto& [what, with] : kReplacements) replace_all(text, what, with);
  }

  const std::string prefix_;
  const bool cleanup_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer(const Json& json, const std::string& source) {
  return std::make_unique<WordsAndPunctuation>(JsonPart(json, "\"pre_tokenizer\"", source).rule());
}

std::unique_ptr<Decoder> make_word_piece_decoder(const Json& json, const std::string& source) {
  return std::make_unique<WordPieceDecoder>(JsonPart(json, "\"decoder\"", source));
}

}  // namespace weft::tokenizer

// The models "WordPiece" and "WordLevel".
#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// A vocabulary, and the token of words that it does not have.
class Words : public Model {
 public:
  explicit Words(const JsonPart& part) : Model(part.rule()), source_(part.source()) {
    for (const auto& [token, id] : part.object("vocab").items()) {
      tokens_.add(token, integer_of(id, "vocab", source_), source_);
      longest_ = std::max(longest_, token.size());
    }
  }
  const TokenTable& tokens() const override { return tokens_; }

 protected:
  // Sets the unknown token. A vocabulary without it is an error when a word needs it.
  void set_unknown(const std::string& token) {
    spelling_of_unknown_ = token;
    unknown_ = tokens_.find(token);
  }
  int64_t unknown(std::string_view word) const {
    if (!unknown_)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: no token spells \"{}\", and \"vocab\" lacks \"{}\", which would stand for it", source_,
           printable(word, 40), printable(spelling_of_unknown_, 40));
    return *unknown_;
  }
  size_t longest() const { return longest_; }  // bytes of a token

 private:
  const std::string source_;
  TokenTable tokens_;
  size_t longest_ = 0;
  std::string spelling_of_unknown_;
  std::optional<int64_t> unknown_;
};

class WordLevel : public Words {
 public:
  explicit WordLevel(const JsonPart& part) : Words(part) { set_unknown(part.text("unk_token", "<unk>")); }

  void encode(std::string_view piece, std::vector<int64_t>& ids, Limits&) const override {
    const auto id = tokens().find(piece);
    ids.push_back(id ? *id : unknown(piece));
  }
};

// Takes the longest token that a word begins with, then the longest of the rest. Tokens behind the first have
// a prefix ("##"). A word that does not end with a token is unknown as a whole.
class WordPiece : public Words {
 public:
  explicit WordPiece(const JsonPart& part)
      : Words(part),
        prefix_(part.text("continuing_subword_prefix", "##")),
        most_characters_(part.integer("max_input_chars_per_word", 100)) {
    set_unknown(part.text("unk_token", "[UNK]"));
  }

  void encode(std::string_view piece, std::vector<int64_t>& ids, Limits& limits) const override {
    const size_t before = ids.size();
    bool known = count_of_characters(piece) <= most_characters_;
    std::string spelling;
    for (size_t begin = 0; known && begin < piece.size();) {
      spelling = begin > 0 ? prefix_ : "";
      const size_t room = longest() - std::min(longest(), spelling.size());
      size_t end = std::min(piece.size(), begin + room);
      while (end < piece.size() && end > begin && !is_boundary(piece, end)) --end;
      known = take_longest(piece, begin, end, spelling, ids, work(limits));
    }
    if (known) return;
    ids.resize(before);
    ids.push_back(unknown(piece));
  }

 private:
  static bool is_boundary(std::string_view text, size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
  }
  static int64_t count_of_characters(std::string_view text) {
    return std::count_if(text.begin(), text.end(),
                         [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
  }
  // Appends the longest token from `begin` to at most `end` and moves `begin` behind it.
  bool take_longest(std::string_view piece, size_t& begin, size_t end, std::string& spelling,
                    std::vector<int64_t>& ids, Work work) const {
    const size_t size_of_prefix = spelling.size();
    while (end > begin) {
      work.step(1 + (size_of_prefix + end - begin) / 8);
      spelling.resize(size_of_prefix);
      spelling += piece.substr(begin, end - begin);
      if (const auto id = tokens().find(spelling)) {
        ids.push_back(*id);
        begin = end;
        return true;
      }
      previous_code_point(piece, end);
    }
    return false;
  }

  const std::string prefix_;
  const int64_t most_characters_;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(const Json& json, const std::string& source) {
  return std::make_unique<WordPiece>(JsonPart(json, "\"model\"", source));
}

std::unique_ptr<Model> make_word_level(const Json& json, const std::string& source) {
  return std::make_unique<WordLevel>(JsonPart(json, "\"model\"", source));
}

}  // namespace weft::tokenizer

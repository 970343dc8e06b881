// The model "Unigram" (Kudo 2018, https://arxiv.org/abs/1804.10959): the tokens of a text are those whose
// scores, logarithms of probabilities, have the largest sum. Ways to split a text often have equal sums ("ff
// f" and "f ff"), and then rounding decides: tokenizers adds in double precision, and SentencePiece keeps
// each sum in single precision. "SentencePieceUnigram" is the model of a tokenizer.model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/prefix_trie.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// How much less a character without a token scores than the worst token.
constexpr double kUnknownPenalty = 10;

class Unigram : public Model {
 public:
  explicit Unigram(const JsonPart& part);

  void encode(std::string_view piece, std::vector<int64_t>& ids, Limits& limits) const override;
  const TokenTable& tokens() const override { return tokens_; }

 private:
  // The best way to the end of a token: the token that ends there.
  struct Step {
    double score = 0;
    size_t begin = 0;
    int64_t id = -1;  // -1: not reached yet
  };

  void read_vocabulary(const JsonPart& part);
  std::vector<Step> best_steps(std::string_view piece, Work work) const;
  double rounded(double sum) const { return is_sentence_piece_ ? static_cast<float>(sum) : sum; }
  void append_unknown(std::string_view text, std::vector<int64_t>& ids) const;
  int64_t unknown(std::string_view text) const;

  const bool is_sentence_piece_;
  TokenTable tokens_;
  PrefixTrie trie_;
  std::vector<double> scores_;
  double unknown_score_ = std::numeric_limits<double>::infinity();
  std::optional<int64_t> unknown_;
  const bool byte_fallback_;
  std::optional<std::array<int64_t, 256>> bytes_;  // the ids of "<0x00>" to "<0xFF>"; -1 of none
  const std::string source_;
};

Unigram::Unigram(const JsonPart& part)
    : Model(part.rule()),
      is_sentence_piece_(part.text("type", "") == "SentencePieceUnigram"),
      byte_fallback_(part.flag("byte_fallback", false)),
      source_(part.source()) {
  read_vocabulary(part);
  if (part.find("unk_id")) {
    unknown_ = part.integer("unk_id", 0);
    if (*unknown_ >= tokens_.size())
      part.wrong("unk_id", fmt::format("less than the {} tokens of \"vocab\"", tokens_.size()));
  }
  if (!byte_fallback_) return;
  bytes_.emplace();
  for (unsigned byte = 0; byte < bytes_->size(); ++byte)
    (*bytes_)[byte] = tokens_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
}

void Unigram::read_vocabulary(const JsonPart& part) {
  const Json& vocabulary = part.list("vocab");
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  sorted.reserve(vocabulary.size());
  scores_.reserve(vocabulary.size());
  for (const Json& item : vocabulary) {
    const auto id = static_cast<int32_t>(scores_.size());
    // SentencePiece has tokens without a score, which no text becomes.
    const bool is_spelled = !is_sentence_piece_ || item.size() != 2 || !item[1].is_null();
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || (is_spelled && !item[1].is_number()))
      fail(WEFT_DATA_LOSS, "{}: element {} of \"vocab\" is {}, must be a token and its score", source_, id,
           printable(item.dump(-1, ' ', true, Json::error_handler_t::replace), 80));
    const std::string& token = item[0].get_ref<const std::string&>();
    tokens_.add(token, id, source_);
    scores_.push_back(is_spelled ? item[1].get<double>() : 0);
    if (!is_spelled) continue;
    sorted.emplace_back(token, id);
    unknown_score_ = std::min(unknown_score_, scores_.back() - kUnknownPenalty);
  }
  unknown_score_ = rounded(unknown_score_);
  // Of two tokens with one spelling the later one counts, as in the table.
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  trie_ = PrefixTrie(sorted);
}

std::vector<Unigram::Step> Unigram::best_steps(std::string_view piece, Work work) const {
  std::vector<Step> steps(piece.size() + 1);
  for (size_t begin = 0; begin < piece.size();) {
    size_t next = begin;
    next_code_point(piece, next);
    const double so_far = steps[begin].score;
    const auto reach = [&](size_t end, double score, int64_t id) {
      Step& step = steps[end];
      const double sum = rounded(so_far + score);
      if (step.id < 0 || sum > step.score) step = {sum, begin, id};
    };
    bool has_character = false;
    work.step(trie_.each_prefix(piece.substr(begin), [&](size_t size, int32_t id) {
      reach(begin + size, scores_[static_cast<size_t>(id)], id);
      has_character = has_character || begin + size == next;
    }));
    if (!has_character) reach(next, unknown_score_, unknown(piece.substr(begin, next - begin)));
    begin = next;
  }
  return steps;
}

void Unigram::encode(std::string_view piece, std::vector<int64_t>& ids, Limits& limits) const {
  const std::vector<Step> steps = best_steps(piece, work(limits));
  const size_t before = ids.size();
  std::vector<int64_t> characters;
  for (size_t end = piece.size(); end > 0;) {
    // Backwards, and unknown characters that follow each other as one.
    size_t begin = steps[end].begin;
    if (steps[end].id != unknown_) {
      ids.push_back(steps[end].id);
    } else {
      while (begin > 0 && steps[begin].id == unknown_) begin = steps[begin].begin;
      characters.clear();
      append_unknown(piece.substr(begin, end - begin), characters);
      ids.insert(ids.end(), characters.rbegin(), characters.rend());
    }
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<ptrdiff_t>(before), ids.end());
}

// Appends the tokens of characters that no token spells: one that spells them together, or those of their
// bytes, or the unknown one.
void Unigram::append_unknown(std::string_view text, std::vector<int64_t>& ids) const {
  if (const auto id = is_sentence_piece_ ? std::nullopt : tokens_.find(text)) {
    ids.push_back(*id);
    return;
  }
  const auto id_of = [this](char byte) { return (*bytes_)[static_cast<unsigned char>(byte)]; };
  if (bytes_ && std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; }))
    for (const char byte : text) ids.push_back(id_of(byte));
  else
    ids.push_back(unknown(text));
}

int64_t Unigram::unknown(std::string_view text) const {
  if (!unknown_)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: no token spells \"{}\", and \"unk_id\", which would stand for it, is missing", source_,
         printable(text, 40));
  return *unknown_;
}

}  // namespace

std::unique_ptr<Model> make_unigram(const Json& json, const std::string& source) {
  return std::make_unique<Unigram>(JsonPart(json, "\"model\"", source));
}

}  // namespace weft::tokenizer

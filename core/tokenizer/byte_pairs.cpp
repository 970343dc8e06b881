// The model "BPE".
#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"
#include "tokenizer/merge_table.hpp"
#include "tokenizer/utf8.hpp"
#include "tokenizer/word_cache.hpp"

namespace weft::tokenizer {

namespace {

class BytePairs : public Model {
 public:
  explicit BytePairs(const JsonPart& part);

  void encode(std::string_view piece, std::vector<int64_t>& ids, Limits& limits) const override;
  const TokenTable& tokens() const override { return tokens_; }

 private:
  void read_vocabulary(const JsonPart& part);
  void read_merges(const JsonPart& part);
  void add_merge(std::string_view left, std::string_view right, uint32_t rank);
  std::vector<uint32_t> symbols_of(std::string_view piece) const;
  std::optional<int64_t> id_of_symbol(std::string_view character, bool is_first, bool is_last) const;
  bool add_bytes(std::string_view character, std::vector<uint32_t>& symbols) const;

  TokenTable tokens_;
  MergeTable merges_;
  std::array<int32_t, 0x800> symbols_ = {};  // the ids of characters without prefix and suffix; -1 of none
  std::array<int32_t, 256> bytes_ = {};      // the ids of "<0x00>" to "<0xFF>"
  std::string prefix_, suffix_;  // of pieces of a word that do not begin it, and of its last piece
  std::optional<uint32_t> unknown_;
  const bool byte_fallback_, fuse_unknown_, ignore_merges_;
  const std::string source_;
  mutable WordCache cache_;
};

// Each character of a word can have one, and each of their bytes can become a token.
constexpr size_t kLongestAffix = 32;

int32_t id_or_none(const TokenTable& tokens, std::string_view token) {
  return static_cast<int32_t>(tokens.find(token).value_or(-1));
}

BytePairs::BytePairs(const JsonPart& part)
    : Model(part.rule()),
      prefix_(part.text("continuing_subword_prefix", "")),
      suffix_(part.text("end_of_word_suffix", "")),
      byte_fallback_(part.flag("byte_fallback", false)),
      fuse_unknown_(part.flag("fuse_unk", false)),
      ignore_merges_(part.flag("ignore_merges", false)),
      source_(part.source()) {
  const Json* dropout = part.find("dropout");
  if (dropout && *dropout != 0)
    fail(WEFT_UNIMPLEMENTED, "{}: \"dropout\" is {}: Weft has no random tokens; set it to null", source_,
         dropout->dump());
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (part.text(key, "").size() > kLongestAffix)
      part.wrong(key, fmt::format("a text of at most {} bytes", kLongestAffix));
  read_vocabulary(part);
  read_merges(part);
  const std::string unknown = part.text("unk_token", "");
  if (!unknown.empty()) {
    const auto id = tokens_.find(unknown);
    if (!id) part.wrong("unk_token", "a token of \"vocab\"");
    unknown_ = static_cast<uint32_t>(*id);
  }
}

void BytePairs::read_vocabulary(const JsonPart& part) {
  for (const auto& [token, id] : part.object("vocab").items())
    tokens_.add(token, integer_of(id, "vocab", source_), source_);
  for (char32_t point = 0; point < symbols_.size(); ++point) {
    std::string character;
    append_code_point(character, point);
    symbols_[point] = id_or_none(tokens_, character);
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes_[byte] = id_or_none(tokens_, fmt::format("<0x{:02X}>", byte));
}

void BytePairs::read_merges(const JsonPart& part) {
  const Json& merges = part.list("merges");
  merges_.reserve(merges.size());
  uint32_t rank = 0;
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        fail(WEFT_DATA_LOSS, "{}: merge {} is \"{}\", must be two tokens with a space between them", source_,
             rank, printable(text, 80));
      add_merge(text.substr(0, space), text.substr(space + 1), rank);
    } else if (merge.is_array() && merge.size() >= 2 && merge[0].is_string() && merge[1].is_string()) {
      // The merges of tokenizer.model have their ranks, because those of one token have the same.
      const bool ranked = merge.size() == 3 && merge[2].is_number_unsigned();
      add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
                ranked ? merge[2].get<uint32_t>() : rank);
    } else {
      fail(WEFT_DATA_LOSS, "{}: merge {} is {}, must be two tokens", source_, rank, json_kind(merge));
    }
    ++rank;
  }
}

void BytePairs::add_merge(std::string_view left, std::string_view right, uint32_t rank) {
  const auto id_of = [&](std::string_view token) {
    const auto id = tokens_.find(token);
    if (!id)
      fail(WEFT_DATA_LOSS, "{}: merge {} (\"{}\" and \"{}\") needs the token \"{}\", which \"vocab\" has not",
           source_, rank, printable(left, 40), printable(right, 40), printable(token, 80));
    return static_cast<uint32_t>(*id);
  };
  const uint32_t left_id = id_of(left), right_id = id_of(right);
  if (right.size() < prefix_.size())
    fail(WEFT_DATA_LOSS, "{}: merge {}: \"{}\" is shorter than \"continuing_subword_prefix\"", source_, rank,
         printable(right, 40));
  const std::string joined = std::string(left).append(right.substr(prefix_.size()));
  merges_.set(left_id, right_id, {rank, id_of(joined)});
}

std::optional<int64_t> BytePairs::id_of_symbol(std::string_view character, bool is_first,
                                               bool is_last) const {
  const bool has_prefix = !is_first && !prefix_.empty(), has_suffix = is_last && !suffix_.empty();
  if (has_prefix || has_suffix) {
    std::string spelling = has_prefix ? prefix_ : std::string();
    spelling += character;
    if (has_suffix) spelling += suffix_;
    return tokens_.find(spelling);
  }
  size_t at = 0;
  const char32_t point = next_code_point(character, at);
  if (point >= symbols_.size()) return tokens_.find(character);
  if (symbols_[point] < 0) return std::nullopt;
  return symbols_[point];
}

// Adds the tokens of the bytes of a character, if all of them have one.
bool BytePairs::add_bytes(std::string_view character, std::vector<uint32_t>& symbols) const {
  const auto id_of = [this](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) < 0; }))
    return false;
  for (const char byte : character) symbols.push_back(static_cast<uint32_t>(id_of(byte)));
  return true;
}

std::vector<uint32_t> BytePairs::symbols_of(std::string_view piece) const {
  std::vector<uint32_t> symbols;
  symbols.reserve(piece.size());
  // An unknown token is added before the next known one: later than bytes, which do not wait for it. Models
  // were trained with this order.
  bool unknown_waits = false;
  for (size_t at = 0; at < piece.size();) {
    const size_t begin = at;
    next_code_point(piece, at);
    const std::string_view character = piece.substr(begin, at - begin);
    if (const auto id = id_of_symbol(character, begin == 0, at == piece.size())) {
      if (unknown_waits) symbols.push_back(*unknown_);
      unknown_waits = false;
      symbols.push_back(static_cast<uint32_t>(*id));
      continue;
    }
    if (byte_fallback_) {
      std::string spelling = begin > 0 ? prefix_ : std::string();
      spelling += character;
      if (at == piece.size()) spelling += suffix_;
      if (add_bytes(spelling, symbols)) continue;
    }
    if (!unknown_) continue;
    if (unknown_waits && !fuse_unknown_) symbols.push_back(*unknown_);
    unknown_waits = true;
  }
  if (unknown_waits) symbols.push_back(*unknown_);
  return symbols;
}

void BytePairs::encode(std::string_view piece, std::vector<int64_t>& ids, Limits&) const {
  if (ignore_merges_) {
    if (const auto id = tokens_.find(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  const bool keeps = piece.size() <= WordCache::kLongestWord;
  if (keeps && cache_.find(piece, ids)) return;
  std::vector<uint32_t> word = symbols_of(piece);
  merges_.apply(word);
  if (keeps) cache_.put(piece, word);
  ids.insert(ids.end(), word.begin(), word.end());
}

}  // namespace

std::unique_ptr<Model> make_byte_pairs(const Json& part, const std::string& source) {
  return std::make_unique<BytePairs>(JsonPart(part, "\"model\"", source));
}

}  // namespace weft::tokenizer

#include "weft/token_spans.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "tokenizer/byte_level.hpp"
#include "tokenizer/token_alignment.hpp"

namespace weft {

using namespace tokenizer;

namespace {

// Returns the byte that a token "<0xE2>" stands for.
std::optional<char> fallback_byte(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || !spelling.ends_with('>')) return std::nullopt;
  int byte = 0;
  const char* const end = spelling.data() + 5;
  const auto [rest, error] = std::from_chars(spelling.data() + 3, end, byte, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  return static_cast<char>(byte);
}

Surface surface_of(const Tokenizer& tokenizer, int64_t id) {
  if (id == tokenizer.id_of(Tokenizer::Role::kUnknown)) return std::nullopt;
  // A decoder may treat the first token of a text in another way, so that only the second one shows its text.
  const std::string once = tokenizer.decode({id}, false), twice = tokenizer.decode({id, id}, false);
  constexpr const char* kReplacement = "\uFFFD";
  if (twice.find(kReplacement) == std::string::npos && once.find(kReplacement) == std::string::npos)
    return twice.starts_with(once) ? twice.substr(once.size()) : once;
  // Its bytes are a part of a character.
  const std::string spelling = tokenizer.token_of(id);
  if (const std::optional<char> byte = fallback_byte(spelling)) return std::string(1, *byte);
  std::string bytes;
  append_bytes_of_spelling(bytes, spelling);
  return bytes;
}

// Returns where the next word ends, in front of white space.
size_t end_of_word(std::string_view text, size_t begin) {
  constexpr std::string_view kSpace = " \t\r\n";
  return std::min(text.find_first_of(kSpace, text.find_first_not_of(kSpace, begin)), text.size());
}

}  // namespace

struct TokenSpans::State {
  explicit State(Tokenizer of) : tokenizer(std::move(of)) {}
  TokenAlignment align(std::string_view text, const std::vector<int64_t>& ids, size_t first,
                       size_t end) const {
    const std::vector<const Surface*> own =
        surfaces_of({ids.begin() + static_cast<ptrdiff_t>(first), ids.begin() + static_cast<ptrdiff_t>(end)});
    return {text, own};
  }
  std::vector<TokenSpan> spans_by_words(std::string_view text, const std::vector<int64_t>& ids) const;

  const Tokenizer tokenizer;

 private:
  std::vector<const Surface*> surfaces_of(const std::vector<int64_t>& ids) const;

  // Of the tokens that came so far, by id. A vocabulary can have far more.
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<int64_t, Surface> known_;
};

std::vector<const Surface*> TokenSpans::State::surfaces_of(const std::vector<int64_t>& ids) const {
  std::vector<const Surface*> surfaces(ids.size());
  std::unordered_map<int64_t, Surface> made;
  {
    const std::shared_lock lock(mutex_);
    for (size_t i = 0; i < ids.size(); ++i)
      if (const auto found = known_.find(ids[i]); found != known_.end()) surfaces[i] = &found->second;
  }
  for (size_t i = 0; i < ids.size(); ++i)
    if (surfaces[i] == nullptr && !made.contains(ids[i])) made[ids[i]] = surface_of(tokenizer, ids[i]);
  if (made.empty()) return surfaces;
  const std::unique_lock lock(mutex_);
  known_.merge(made);  // keeps those that another thread has made meanwhile
  for (size_t i = 0; i < ids.size(); ++i)
    if (surfaces[i] == nullptr) surfaces[i] = &known_.at(ids[i]);
  return surfaces;
}

TokenSpans::TokenSpans(const Tokenizer& tokenizer) : state_(std::make_shared<const State>(tokenizer)) {}

// Unknown tokens do not tell where they end. Most tokenizers encode words alone as in the text; then a word
// bounds what they stand for.
std::vector<TokenSpan> TokenSpans::State::spans_by_words(std::string_view text,
                                                         const std::vector<int64_t>& ids) const {
  constexpr int kMostWords = 4;  // that are tried together
  std::vector<TokenSpan> spans;
  const auto add = [&](size_t begin, size_t end, size_t ids_end) {
    const TokenAlignment part = align(text.substr(begin, end - begin), ids, spans.size(), ids_end);
    for (const TokenSpan& span : part.spans()) spans.push_back({begin + span.begin, begin + span.end});
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    bool found = false;
    for (int words = 0; words < kMostWords && !found && end < text.size(); ++words) {
      end = end_of_word(text, end);
      const std::vector<int64_t> apart = tokenizer.encode(text.substr(begin, end - begin), false);
      found = apart.size() <= ids.size() - spans.size() &&
              std::equal(apart.begin(), apart.end(), ids.begin() + static_cast<ptrdiff_t>(spans.size())) &&
              (end < text.size() || spans.size() + apart.size() == ids.size());
      if (found) add(begin, end, spans.size() + apart.size());
    }
    if (!found) {
      add(begin, text.size(), ids.size());
      break;
    }
    begin = end;
  }
  spans.resize(ids.size(), {text.size(), text.size()});
  return spans;
}

TokenSpans::Encoded TokenSpans::encode(std::string_view text) const {
  Encoded encoded;
  encoded.ids = state_->tokenizer.encode(text, false);
  const TokenAlignment whole = state_->align(text, encoded.ids, 0, encoded.ids.size());
  encoded.spans = whole.is_certain() ? whole.spans() : state_->spans_by_words(text, encoded.ids);
  return encoded;
}

}  // namespace weft

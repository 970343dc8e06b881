#include "labels/text_encoding.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"

namespace weft::data {

std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t most) {
  if (first + second <= most) return {first, second};
  const auto [shorter, longer] = std::minmax(first, second);
  std::pair<size_t, size_t> kept = {shorter, shorter > most ? shorter : std::max(shorter, most - shorter)};
  if (kept.first + kept.second > most) kept = {most / 2, most / 2 + most % 2};
  if (first > second) std::swap(kept.first, kept.second);
  return kept;
}

TextEncoding::TextEncoding(const Tokenizer& tokenizer, bool pairs, int64_t sequence_length,
                           std::optional<int64_t> padding)
    : tokenizer_(tokenizer) {
  using Role = Tokenizer::Role;
  int64_t added = 0;
  if (pairs) {
    pair_ = joined_pair(tokenizer);
    added = pair_.added();
  } else {
    around_ = enclosing_ids(tokenizer);
    added = std::ssize(around_.before) + std::ssize(around_.after);
  }
  if (sequence_length > 0 && sequence_length <= added)
    fail(
        WEFT_INVALID_ARGUMENT,
        "the sequence length is {}, but {} adds {} tokens to each text: give at least {} (--sequence-length)",
        sequence_length, tokenizer.name(), added, added + 1);
  room_ =
      sequence_length > 0 ? static_cast<size_t>(sequence_length - added) : std::numeric_limits<size_t>::max();
  padding_ =
      tokenizer.id_of(Role::kPadding).value_or(padding.value_or(tokenizer.id_of(Role::kEnd).value_or(0)));
}

EncodedSequence TextEncoding::encode(std::string_view text) const {
  return enclosed(tokenizer_.encode(text, false));
}

EncodedSequence TextEncoding::encode_with_spans(std::string_view text, const TokenSpans& tokens) const {
  const TokenSpans::Encoded found = tokens.encode(text);
  EncodedSequence encoded = enclosed(found.ids);
  encoded.spans.resize(encoded.ids.size());
  const size_t kept = std::min(found.ids.size(), room_);
  const auto first = static_cast<std::ptrdiff_t>(first_kept(found.ids.size(), kept));
  std::copy_n(found.spans.begin() + first, kept,
              encoded.spans.begin() + static_cast<std::ptrdiff_t>(around_.before.size()));
  return encoded;
}

EncodedSequence TextEncoding::enclosed(const std::vector<int64_t>& ids) const {
  const size_t kept = std::min(ids.size(), room_);
  EncodedSequence encoded;
  encoded.is_cut = kept < ids.size();
  encoded.ids.assign(around_.before.begin(), around_.before.end());
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(first_kept(ids.size(), kept));
  encoded.ids.insert(encoded.ids.end(), first, first + static_cast<std::ptrdiff_t>(kept));
  encoded.ids.insert(encoded.ids.end(), around_.after.begin(), around_.after.end());
  return encoded;
}

EncodedSequence TextEncoding::encode_words(const std::vector<std::string>& words,
                                           std::vector<int32_t>& starts) const {
  std::vector<int64_t> ids;
  std::vector<size_t> ends;  // of each word
  for (const std::string& word : words) {
    const std::vector<int64_t> own = tokenizer_.encode(word, false);
    ids.insert(ids.end(), own.begin(), own.end());
    ends.push_back(ids.size());
  }
  const size_t kept = std::min(ids.size(), room_), first = first_kept(ids.size(), kept);
  size_t begin = 0;  // of a word
  for (const size_t end : ends) {
    const size_t start = std::max(begin, first);
    starts.push_back(start < std::min(end, first + kept)
                         ? static_cast<int32_t>(around_.before.size() + start - first)
                         : -1);
    begin = end;
  }
  return enclosed(ids);
}

EncodedSequence TextEncoding::encode_pair(std::string_view first, std::string_view second) const {
  const std::vector<int64_t> a = tokenizer_.encode(first, false), b = tokenizer_.encode(second, false);
  const auto [of_a, of_b] = longest_first(a.size(), b.size(), room_);
  EncodedSequence encoded;
  encoded.is_cut = of_a + of_b < a.size() + b.size();
  const auto add_ids = [&](const std::vector<int64_t>& ids, size_t count, int64_t type) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(first_kept(ids.size(), count));
    encoded.ids.insert(encoded.ids.end(), first, first + static_cast<std::ptrdiff_t>(count));
    encoded.types.insert(encoded.types.end(), count, static_cast<uint8_t>(type));
  };
  const auto add = [&](const JoinedPair::Added& added) {
    encoded.ids.insert(encoded.ids.end(), added.ids.begin(), added.ids.end());
    encoded.types.insert(encoded.types.end(), added.types.begin(), added.types.end());
  };
  add(pair_.before);
  add_ids(a, of_a, pair_.first_type);
  add(pair_.between);
  add_ids(b, of_b, pair_.second_type);
  add(pair_.after);
  return encoded;
}

}  // namespace weft::data

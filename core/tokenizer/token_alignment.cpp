#include "tokenizer/token_alignment.hpp"

#include <algorithm>

#include "tokenizer/unicode.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using Kind = FoldedUnit::Kind;

bool is_space(const FoldedUnit& unit) {
  return unit.kind == Kind::kSpace;
}

// Removes white space at both ends, unless there is nothing else, which it returns.
bool trim_spaces(std::vector<FoldedUnit>& units) {
  const auto last = std::find_if_not(units.rbegin(), units.rend(), is_space);
  if (last == units.rend()) return true;
  units.erase(last.base(), units.end());
  units.erase(units.begin(), std::find_if_not(units.begin(), units.end(), is_space));
  return false;
}

// Returns the characters of a text that are neither white space nor removed by normalizers.
std::vector<TokenSpan> characters_of(const std::vector<FoldedUnit>& units) {
  std::vector<TokenSpan> characters;
  for (const FoldedUnit& unit : units)
    if (unit.kind == Kind::kText && (characters.empty() || characters.back().begin != unit.begin))
      characters.push_back({unit.begin, unit.end});
  return characters;
}

// Returns the words of a text and its punctuation.
std::vector<TokenSpan> words_of(const std::vector<FoldedUnit>& units) {
  std::vector<TokenSpan> words;
  bool continues = false;  // the last word
  for (const FoldedUnit& unit : units) {
    const bool punctuation = is_punctuation(unit.point);
    if (continues && !punctuation && !is_space(unit))
      words.back().end = unit.end;
    else if (!is_space(unit))
      words.push_back({unit.begin, unit.end});
    continues = !punctuation && !is_space(unit);
  }
  return words;
}

}  // namespace

TokenAlignment::TokenAlignment(std::string_view text, std::vector<const Surface*> surfaces)
    : text_(folded(text)), bytes_(text.size()), surfaces_(std::move(surfaces)) {
  for (size_t token = 0; token < surfaces_.size(); token = groups_.back().last + 1)
    groups_.push_back(next_group(token));
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (pending_ == 0 && group.is_space) {
      take_spaces(group);
      continue;
    }
    std::optional<Places> places;
    if (pending_ == 0) places = match(group, at_);
    if (!places) {
      certain_ = false;
      places = find(i);
    }
    if (!places) {
      ++pending_;
      continue;
    }
    pending_ > 0 ? give_gap(i, places->front()) : extend_by_marks(places->front());
    take(group, *places);
  }
  pending_ > 0 ? give_gap(groups_.size(), text_.size()) : extend_by_marks(text_.size());
}

TokenAlignment::Group TokenAlignment::next_group(size_t first) const {
  Group group{.first = first, .last = first, .known = surfaces_[first]->has_value()};
  if (!group.known) return group;
  std::string bytes = **surfaces_[first];
  while (!is_utf8(bytes) && group.last + 1 < surfaces_.size() && surfaces_[group.last + 1]->has_value() &&
         !is_utf8(**surfaces_[group.last + 1]))
    bytes += **surfaces_[++group.last];
  if (!is_utf8(bytes)) return {.first = first, .last = first, .known = false};
  group.units = folded(bytes);
  group.is_space = trim_spaces(group.units);
  return group;
}

std::optional<TokenAlignment::Places> TokenAlignment::match(const Group& group, size_t at) const {
  if (!group.known || group.is_space) return std::nullopt;
  Places places;
  for (const FoldedUnit& unit : group.units) {
    while (at < text_.size() && text_[at].point != unit.point &&
           (text_[at].may_be_missing() || (places.empty() && is_space(text_[at]))))
      ++at;
    if (at == text_.size() || text_[at].point != unit.point) return std::nullopt;
    places.push_back(at++);
  }
  return places;
}

std::optional<TokenAlignment::Places> TokenAlignment::find(size_t index) const {
  constexpr size_t kFarthest = 1024;  // behind it another text is more likely than such a gap
  const Group& group = groups_[index];
  if (!group.known || group.is_space) return std::nullopt;
  const size_t end = std::min(text_.size(), at_ + kFarthest);
  for (size_t at = at_; at < end; ++at) {
    if (text_[at].point != group.units.front().point) continue;
    // Something is left for the tokens in front.
    if (pending_ > 0 &&
        std::all_of(text_.begin() + static_cast<ptrdiff_t>(at_), text_.begin() + static_cast<ptrdiff_t>(at),
                    [](const FoldedUnit& unit) { return is_space(unit) || unit.may_be_missing(); }))
      continue;
    std::optional<Places> places = match(group, at);
    if (!places) continue;
    // The same text may come earlier by chance, but hardly with the same text behind it.
    const bool is_last = index + 1 == groups_.size();
    if (is_last || !groups_[index + 1].known || groups_[index + 1].is_space ||
        match(groups_[index + 1], places->back() + 1))
      return places;
  }
  return std::nullopt;
}

void TokenAlignment::take(const Group& group, const Places& places) {
  size_t begin = 0;  // of the token, in the surfaces of the group
  for (size_t token = group.first; token <= group.last; ++token) {
    const size_t end = begin + (*surfaces_[token])->size();
    std::optional<TokenSpan> span;
    for (size_t i = 0; i < places.size(); ++i) {
      if (group.units[i].end <= begin || group.units[i].begin >= end) continue;
      const FoldedUnit& found = text_[places[i]];
      span = TokenSpan{span ? span->begin : found.begin, found.end};
    }
    const size_t here = text_[places.front()].begin;
    spans_.push_back(span.value_or(TokenSpan{here, here}));
    begin = end;
  }
  at_ = places.back() + 1;
}

void TokenAlignment::take_spaces(const Group& group) {
  const size_t first = at_;
  while (at_ < text_.size() && is_space(text_[at_]) && at_ - first < group.units.size()) ++at_;
  const size_t begin = byte_at(first), end = at_ > first ? text_[at_ - 1].end : begin;
  spans_.resize(group.last + 1, {begin, end});
}

void TokenAlignment::give_gap(size_t index, size_t end) {
  size_t begin = at_;
  while (begin < end && is_space(text_[begin])) ++begin;
  while (end > begin && is_space(text_[end - 1])) --end;
  const size_t first = spans_.size();
  const size_t last = index < groups_.size() ? groups_[index].first : surfaces_.size();
  const TokenSpan all{byte_at(begin), begin < end ? text_[end - 1].end : byte_at(begin)};
  const std::vector<FoldedUnit> gap(text_.begin() + static_cast<ptrdiff_t>(begin),
                                    text_.begin() + static_cast<ptrdiff_t>(end));
  // Tokenizers replace each character, or each word.
  for (const std::vector<TokenSpan>& parts : {characters_of(gap), words_of(gap)})
    if (parts.size() == last - first && spans_.size() == first)
      spans_.insert(spans_.end(), parts.begin(), parts.end());
  spans_.resize(last, all);
  pending_ = 0;
  at_ = end;
}

void TokenAlignment::extend_by_marks(size_t end) {
  for (; !spans_.empty() && at_ < end && text_[at_].kind == Kind::kMark; ++at_)
    spans_.back().end = std::max(spans_.back().end, text_[at_].end);
}

size_t TokenAlignment::byte_at(size_t unit) const {
  return unit < text_.size() ? text_[unit].begin : bytes_;
}

}  // namespace weft::tokenizer

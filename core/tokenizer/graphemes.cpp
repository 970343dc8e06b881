#include "tokenizer/graphemes.hpp"

#include <cstdint>

#include "tokenizer/unicode_data.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

// Values of Grapheme_Cluster_Break, in the order of unicode_tables.py.
enum class Break : uint8_t {
  kOther,
  kReturn,
  kLineFeed,
  kControl,
  kExtend,
  kJoiner,
  kRegional,
  kPrepend,
  kSpacingMark,
  kLeading,
  kVowel,
  kTrailing,
  kLeadingVowel,
  kWholeSyllable,
  kPictographic
};

Break break_of(char32_t point) {
  static const data::Property all(data::kBreaks);
  return static_cast<Break>(all[point]);
}

// What the code points of a cluster so far say about the next one.
struct Cluster {
  Break last;
  bool odd_regional = false;  // ends with an odd number of regional indicators
  bool picture = false;       // ends with a pictograph and extenders
  bool picture_and_joiner = false;

  explicit Cluster(Break first) : last(first) { set(first); }

  bool goes_on_with(Break next) const {
    using enum Break;
    if (last == kReturn) return next == kLineFeed;
    if (last == kLineFeed || last == kControl) return false;
    switch (next) {
      case kReturn:
      case kLineFeed:
      case kControl:
        return false;
      case kExtend:
      case kJoiner:
      case kSpacingMark:
        return true;
      case kLeading:
      case kLeadingVowel:
      case kWholeSyllable:
        return last == kLeading || last == kPrepend;
      case kVowel:
        return last == kLeading || last == kVowel || last == kLeadingVowel || last == kPrepend;
      case kTrailing:
        return last == kVowel || last == kTrailing || last == kLeadingVowel || last == kWholeSyllable ||
               last == kPrepend;
      case kRegional:
        return odd_regional || last == kPrepend;
      case kPictographic:
        return picture_and_joiner || last == kPrepend;
      case kOther:
      case kPrepend:
        return last == kPrepend;
    }
    return false;
  }

  void set(Break next) {
    picture_and_joiner = picture && next == Break::kJoiner;
    picture = next == Break::kPictographic || (picture && next == Break::kExtend);
    odd_regional = next == Break::kRegional && !odd_regional;
    last = next;
  }
};

}  // namespace

size_t end_of_grapheme(std::string_view text, size_t begin) {
  size_t end = begin;
  Cluster cluster(break_of(next_code_point(text, end)));
  while (end < text.size()) {
    size_t behind = end;
    const Break next = break_of(next_code_point(text, behind));
    if (!cluster.goes_on_with(next)) break;
    cluster.set(next);
    end = behind;
  }
  return end;
}

}  // namespace weft::tokenizer

// Texts and pairs of texts as the ids of one sequence, cut to a length.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/joined_pair.hpp"
#include "weft/token_spans.hpp"
#include "weft/tokenizer.hpp"

namespace weft::data {

// The ids of a sequence.
struct EncodedSequence {
  std::vector<uint32_t> ids;
  std::vector<uint8_t> types;         // of each id; empty: all are 0
  std::vector<TokenSpan> spans = {};  // of each id, of encode_with_spans() alone; empty ones are of no text
  bool is_cut = false;                // whether ids were left out
};

// How many ids are left of two sequences of which `most` fit: those of the longer one are left out first, as
// the tokenizers library does.
std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t most);

// How texts become sequences.
class TextEncoding {
 public:
  // `padding`: the id of padding where the tokenizer has none; without both its end-of-sequence id pads.
  // Throws INVALID_ARGUMENT for a `sequence_length` that has no room beside the ids that the tokenizer adds
  // (0: no limit); UNIMPLEMENTED like enclosing_ids() and, for `pairs`, joined_pair().
  TextEncoding(const Tokenizer& tokenizer, bool pairs, int64_t sequence_length,
               std::optional<int64_t> padding);

  // Return the ids of a text or a pair with those that the tokenizer adds. If they are too many, the ones at
  // the end of the text, or at its begin if the tokenizer truncates there, are left out. Called from several
  // threads at once.
  EncodedSequence encode(std::string_view text) const;
  EncodedSequence encode_pair(std::string_view first, std::string_view second) const;
  // Does the same and finds the bytes of the text that each token stands for.
  EncodedSequence encode_with_spans(std::string_view text, const TokenSpans& tokens) const;
  // Does the same for words, each of which is encoded by itself. `starts` receives the position of the first
  // token of each word, or -1 for a word without one. Of a word that is truncated at
  // its beginning it is the position of the first token that is left.
  EncodedSequence encode_words(const std::vector<std::string>& words, std::vector<int32_t>& starts) const;

  int64_t padding() const { return padding_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  // Returns how many ids are behind a text.
  size_t ids_behind() const { return around_.after.size(); }
  bool pads_left() const { return tokenizer_.pads_left(); }

 private:
  // Returns the ids of a text, cut, with those around them.
  EncodedSequence enclosed(const std::vector<int64_t>& ids) const;
  // Returns the `kept` of so many tokens that are left, as the index of the first one.
  size_t first_kept(size_t tokens, size_t kept) const {
    return tokenizer_.truncates_left() ? tokens - kept : 0;
  }

  const Tokenizer tokenizer_;
  EnclosingIds around_;
  JoinedPair pair_;
  size_t room_;
  int64_t padding_;
};

}  // namespace weft::data

// Finds tokens in the text that was encoded.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/folded_text.hpp"
#include "weft/token_spans.hpp"

namespace weft::tokenizer {

// The bytes that a token adds to a text. They need not be whole characters. Nothing for a token that stands
// for text that it does not tell, as the one for the unknown.
using Surface = std::optional<std::string>;

// Aligns the tokens of a text with it, from the first to the last.
class TokenAlignment {
 public:
  // `surfaces` are those of the tokens, in their order.
  TokenAlignment(std::string_view text, std::vector<const Surface*> surfaces);

  // Returns whether each token follows the one before it in the text. Otherwise a token was sought further
  // on, or was not found.
  bool is_certain() const { return certain_; }
  // Returns the spans, as TokenSpans::encode() describes them.
  const std::vector<TokenSpan>& spans() const { return spans_; }

 private:
  using Units = std::vector<FoldedUnit>;
  // Tokens whose surfaces together are whole characters.
  struct Group {
    size_t first = 0, last = 0;  // tokens
    Units units;                 // without white space at the ends; positions are those in the surfaces
    bool known = true;           // whether there is a surface
    bool is_space = false;       // whether there is nothing but white space; `units` has it then
  };
  // Where a group is: the unit of the text that each of its units is.
  using Places = std::vector<size_t>;

  Group next_group(size_t first) const;
  // Returns where the group is if the text goes on with it at unit `at`. Leaves out what normalizers remove,
  // and before the group also white space.
  std::optional<Places> match(const Group& group, size_t at) const;
  // Returns where group `index` is behind text that the tokens before do not tell.
  std::optional<Places> find(size_t index) const;
  void take(const Group& group, const Places& places);
  void take_spaces(const Group& group);
  // Gives the text from the last token that was found to unit `end` to the pending groups before `index`.
  void give_gap(size_t index, size_t end);
  // Adds marks that normalizers removed to the character before them.
  void extend_by_marks(size_t end);
  size_t byte_at(size_t unit) const;

  const Units text_;
  const size_t bytes_;  // of the text
  const std::vector<const Surface*> surfaces_;
  std::vector<Group> groups_;
  size_t at_ = 0;       // the first unit behind the last token that was found
  size_t pending_ = 0;  // groups since then, which were not found
  bool certain_ = true;
  std::vector<TokenSpan> spans_;
};

}  // namespace weft::tokenizer

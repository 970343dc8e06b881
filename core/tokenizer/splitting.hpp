// Cuts pieces at matches.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/interfaces.hpp"
#include "tokenizer/json_part.hpp"

namespace weft::tokenizer {

// What becomes of the matches that a text is cut at.
enum class Behavior : uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
Behavior behavior_of(const JsonPart& part, Behavior otherwise);

// A text as a sequence of parts, each of them a match or not.
struct Part {
  size_t begin = 0, end = 0;
  bool matches = false;
};
using Parts = std::vector<Part>;

// Appends the match [begin, end) to `parts`, with what lies before it.
void add_match(Parts& parts, size_t begin, size_t end);
// Appends what lies behind the last match of a text of `size` bytes.
void add_rest(Parts& parts, size_t size);

// Joins parts, or leaves them out, as `behavior` says.
void apply(Behavior behavior, Parts& parts);

// Replaces each piece by the parts that `cut` finds in it.
template <typename Cut>
void cut_pieces(Pieces& pieces, Behavior behavior, Work work, Cut cut) {
  work.step(pieces.text.size() + pieces.list.size());
  std::vector<Pieces::Piece> list;
  list.reserve(pieces.list.size() * 2);
  Parts parts;
  for (const Pieces::Piece& piece : pieces.list) {
    parts.clear();
    cut(pieces.at(piece), parts);
    apply(behavior, parts);
    for (const Part& part : parts)
      if (part.end > part.begin)
        list.push_back({piece.begin + part.begin, piece.begin + part.end, piece.first && part.begin == 0});
  }
  pieces.list = std::move(list);
}

// Replaces the text of each piece by what `write` appends.
template <typename Write>
void rewrite_pieces(Pieces& pieces, Work work, Write write) {
  work.step(pieces.text.size() + pieces.list.size());
  std::string text;
  text.reserve(pieces.text.size() * 2);
  for (Pieces::Piece& piece : pieces.list) {
    const size_t begin = text.size();
    write(piece, pieces.at(piece), text);
    piece.begin = begin;
    piece.end = text.size();
    work.require_room(text.size());
  }
  pieces.text = std::move(text);
}

}  // namespace weft::tokenizer

#include "tokenizer/splitting.hpp"

#include <algorithm>

namespace weft::tokenizer {

Behavior behavior_of(const JsonPart& part, Behavior otherwise) {
  const std::string name = part.text("behavior", "");
  if (name.empty()) return otherwise;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  part.unknown("behavior", name);
}

void add_match(Parts& parts, size_t begin, size_t end) {
  const size_t before = parts.empty() ? 0 : parts.back().end;
  if (before < begin) parts.push_back({before, begin, false});
  parts.push_back({begin, end, true});
}

void add_rest(Parts& parts, size_t size) {
  const size_t before = parts.empty() ? 0 : parts.back().end;
  if (before < size) parts.push_back({before, size, false});
}

namespace {

// Joins a match with the part in front of it, unless that is a match.
Parts joined_to_previous(const Parts& parts) {
  Parts joined;
  bool previous_matches = false;
  for (const Part& part : parts) {
    if (part.matches && !previous_matches && !joined.empty())
      joined.back().end = part.end;
    else
      joined.push_back(part);
    previous_matches = part.matches;
  }
  return joined;
}

Parts joined_to_next(const Parts& parts) {
  Parts joined;
  bool next_matches = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->matches && !next_matches && !joined.empty())
      joined.back().begin = part->begin;
    else
      joined.push_back(*part);
    next_matches = part->matches;
  }
  std::reverse(joined.begin(), joined.end());
  return joined;
}

Parts joined_alike(const Parts& parts) {
  Parts joined;
  for (const Part& part : parts)
    if (!joined.empty() && joined.back().matches == part.matches)
      joined.back().end = part.end;
    else
      joined.push_back(part);
  return joined;
}

}  // namespace

void apply(Behavior behavior, Parts& parts) {
  switch (behavior) {
    case Behavior::kIsolated:
      break;
    case Behavior::kRemoved:
      std::erase_if(parts, [](const Part& part) { return part.matches; });
      break;
    case Behavior::kMergedWithPrevious:
      parts = joined_to_previous(parts);
      break;
    case Behavior::kMergedWithNext:
      parts = joined_to_next(parts);
      break;
    case Behavior::kContiguous:
      parts = joined_alike(parts);
      break;
  }
}

}  // namespace weft::tokenizer

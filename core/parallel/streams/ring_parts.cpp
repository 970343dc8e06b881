#include "streams/ring_parts.hpp"

#include <algorithm>

namespace weft::parallel {

namespace {

// In zigzag order the first segment of a lower rank precedes all positions of this rank and its second
// segment follows them; both segments of a higher rank lie between the two segments of this rank. So one part
// has all that a rank attends to.
std::vector<RingPart> parts_of_rows(const Positions& positions, int rank, const RingShape& shape) {
  const int own = positions.ranks().rank();
  const Run rows = {0, shape.rows};
  const int64_t queries = positions.count(own, shape.total), keys = positions.count(rank, shape.total_keys);
  if (queries == 0 || keys == 0) return {};
  if (!shape.causal) return {{rows, {0, queries}, {0, keys}}};
  if (rank == own) return {{rows, {0, queries}, {0, keys}, true}};
  const std::vector<Run> mine = positions.of(own, shape.total), other = positions.of(rank, shape.total_keys);
  const Run &first = rank < own ? mine.front() : mine.back(),
            &last = rank < own ? other.front() : other.back();
  if (shape.window > 0 && first.begin - (last.begin + last.count - 1) >= shape.window) return {};
  const RingPart part = rank < own ? RingPart{rows, {0, queries}, {0, other.front().count}}
                                   : RingPart{rows, {mine.front().count, mine.back().count}, {0, keys}};
  if (part.queries.count == 0 || part.keys.count == 0) return {};
  return {part};
}

// A range of a document in a segment: where it is in the sequence, and among the positions of its rank.
struct Place {
  int64_t begin = 0, count = 0, local = 0;
  int64_t last() const { return begin + count - 1; }
};

// Returns where the segments of a rank have positions of a document.
std::vector<Place> places(const std::vector<Run>& segments, const kernels::AttentionSpan& span) {
  std::vector<Place> found;
  int64_t local = 0;
  for (const Run& segment : segments) {
    const int64_t begin = std::max(segment.begin, span.begin),
                  end = std::min(segment.begin + segment.count, span.begin + span.count);
    if (begin < end) found.push_back({begin, end - begin, local + begin - segment.begin});
    local += segment.count;
  }
  return found;
}

}  // namespace

std::vector<RingPart> ring_parts(const Positions& positions, int rank, const RingShape& shape) {
  if (shape.spans.empty()) return parts_of_rows(positions, rank, shape);
  const std::vector<Run> mine = positions.of(positions.ranks().rank(), shape.total),
                         other = positions.of(rank, shape.total_keys);
  std::vector<RingPart> parts;
  for (const kernels::AttentionSpan& span : shape.spans) {
    const std::vector<Place> of_keys = places(other, span);
    for (const Place& queries : places(mine, span)) {
      for (const Place& keys : of_keys) {
        if (shape.causal && keys.begin > queries.begin) continue;
        if (shape.window > 0 && queries.begin - keys.last() >= shape.window) continue;
        parts.push_back({{span.sample, 1},
                         {queries.local, queries.count},
                         {keys.local, keys.count},
                         shape.causal && keys.begin == queries.begin});
      }
    }
  }
  return parts;
}

}  // namespace weft::parallel

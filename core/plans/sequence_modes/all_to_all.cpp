// Split over the sequence axis. Attention exchanges positions for heads.
#include <numeric>

#include "sequence_modes/regions.hpp"

namespace weft::sequence_modes {

namespace {

using Pass = plan::Message::Pass;

// Queries, keys, values and the result.
int64_t width(int64_t queries, int64_t keys, Pass) {
  return keys + 2 * queries;
}

// A rank sends the other heads of its own positions, or its heads of the other positions.
int64_t bytes(const plan::AttentionShape& shape, Pass pass) {
  const bool forward = pass == Pass::kForward;
  const int64_t ranks = shape.segments.ranks, queries = shape.queries / ranks, keys = shape.keys / ranks;
  const auto heads = [&](int64_t total) { return shape.segments.count(0, total) * (ranks - 1); };
  const auto others = [&](int64_t total) { return total - shape.segments.count(0, total); };
  const int64_t result = queries * (forward ? others(shape.positions) : heads(shape.positions));
  const int64_t inputs = forward ? queries * heads(shape.positions) + keys * heads(shape.source_positions)
                                 : queries * others(shape.positions) + keys * others(shape.source_positions);
  return (result + inputs) * shape.element_size;
}

// Key heads are repeated until every rank gets one.
int64_t key_heads(int64_t heads, int64_t ranks) {
  return heads * ranks / std::gcd(heads, ranks);
}

}  // namespace

plan::SequenceMode all_to_all() {
  return {.name = "all_to_all",
          .axis = plan::SequenceMode::Axis::kSequence,
          .divides_heads = true,
          .regions = same_positions(),
          .attention = {plan::Collective::kAllToAll, "all-to-all of queries, keys, values and the result",
                        width, bytes, key_heads}};
}

}  // namespace weft::sequence_modes

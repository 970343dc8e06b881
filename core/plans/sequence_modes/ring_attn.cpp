// Split over the sequence axis. Attention passes keys and values round a ring.
#include "sequence_modes/regions.hpp"

namespace weft::sequence_modes {

namespace {

using Pass = plan::Message::Pass;

// Keys and values, and in backward also their gradients.
int64_t width(int64_t, int64_t keys, Pass pass) {
  return keys * (pass == Pass::kBackward ? 2 : 1);
}

// Returns the rank whose keys and values the first rank does not pass on, because they visit it last
// (parallel/route.hpp).
int64_t last_visited(const plan::AttentionShape& shape) {
  const int64_t inner = shape.inner_ring, groups = shape.segments.ranks / inner;
  return 1 % groups * inner + groups % inner;
}

int64_t bytes(const plan::AttentionShape& shape, Pass pass) {
  const int64_t total = shape.source_positions;
  const int64_t travelling = shape.keys * (total - shape.segments.count(last_visited(shape), total));
  // The gradients of all keys and values pass through each rank.
  return travelling * shape.element_size +
         (pass == Pass::kForward ? 0 : shape.keys * total * shape.exact_size);
}

int64_t key_heads(int64_t heads, int64_t) {
  return heads;
}

}  // namespace

plan::SequenceMode ring_attn() {
  return {.name = "ring_attn",
          .axis = plan::SequenceMode::Axis::kSequence,
          .order = Segments::Order::kZigzag,
          .overlaps = true,
          .takes_inner_ring = true,
          .regions = same_positions(),
          .attention = {plan::Collective::kSend, "keys and values travel around the ring", width, bytes,
                        key_heads}};
}

}  // namespace weft::sequence_modes

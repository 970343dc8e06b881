// A sequence mode: how ranks split the positions of sequences, and what their residual streams send for it.
// One object for each value of the option sequence_parallelism_mode, and "whole" for sequences that are not
// split.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "axes/segments.hpp"
#include "weft/plan.hpp"

namespace weft::plan {

enum class Collective { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };
inline constexpr std::array<const char*, 5> kCollectives = {"all_reduce", "all_gather", "reduce_scatter",
                                                            "all_to_all", "send"};

// One call of a collective.
struct Message {
  enum class Pass { kForward, kBackward };
  enum class Amount {
    kRegion,      // the positions that the rank has inside tensor-parallel regions
    kHead,        // the positions for which the rank computes logits
    kPart,        // the rank's part of the positions, padded to the largest part
    kAllButNext,  // in a ring: the parts of all ranks but the next one
    kAllButOwn,   // in a ring: the parts of all other ranks
    kAttention,   // see AttentionTraffic
    kGradients,   // the gradients of the module's parameters
  };
  Pass pass;
  Collective collective;
  Amount amount;
};

// What a stream sends where it enters and leaves tensor-parallel regions.
struct RegionTraffic {
  std::vector<Message> enter;         // the input of a region
  std::vector<Message> enter_linear;  // that of a linear layer
  std::vector<Message> leave;         // the output of a region
  std::vector<Message> leave_linear;  // that of a linear layer
};

// The attention of one layer to a sequence that is split over a sequence axis.
struct AttentionShape {
  int64_t queries = 0, keys = 0;  // elements of one position: queries, and keys and values together
  int64_t positions = 0, source_positions = 0;  // of the queries, and of the keys and values
  int64_t element_size = 0, exact_size = 0;     // bytes of an element, and where half precision is not enough
  Segments segments;                            // of the ranks of the sequence axis
  int64_t inner_ring = 1;
};

// What attention sends. Its functions are null in a mode without a sequence axis.
struct AttentionTraffic {
  Collective collective = Collective::kSend;
  const char* documentation = "";  // of what it sends in forward
  // Returns how many elements are sent for each position, for people.
  int64_t (*width)(int64_t queries, int64_t keys, Message::Pass pass) = nullptr;
  // Returns the bytes that the first rank sends.
  int64_t (*bytes)(const AttentionShape& shape, Message::Pass pass) = nullptr;
  // Returns how many heads of keys are sent of `key_heads`.
  int64_t (*key_heads)(int64_t key_heads, int64_t ranks) = nullptr;
};

struct SequenceMode {
  enum class Axis { kNone, kTensor, kSequence };
  std::string_view name;    // "ring_attn"
  Axis axis = Axis::kNone;  // whose ranks split the positions
  Segments::Order order = Segments::Order::kInOrder;
  bool divides_heads = false;     // the ranks of the sequence axis divide the heads of attention, too
  bool overlaps = false;          // communicates while it computes, without an option
  bool takes_overlap = false;     // has the option enable_sequence_overlap
  bool takes_inner_ring = false;  // has the option inner_ring_size
  RegionTraffic regions;
  AttentionTraffic attention = {};
};

// Returns all modes. The first is "whole".
const std::vector<SequenceMode>& sequence_modes();

// Returns the mode of this name, null if there is none.
const SequenceMode* find_sequence_mode(std::string_view name);

// Returns the names of the modes that `has` selects, joined by "or" for messages: "all_to_all or ring_attn".
std::string names_of_modes(bool (*has)(const SequenceMode& mode));

// Returns the mode of `sizes`. Throws INTERNAL if there is none.
const SequenceMode& sequence_mode_of(const ParallelSizes& sizes);

}  // namespace weft::plan

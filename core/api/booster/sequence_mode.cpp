#include "booster/sequence_mode.hpp"

#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft {

namespace {

void require_nothing_given(const SequenceOptions& options) {
  const char* given = !options.sequence_parallelism_mode.empty() ? "sequence_parallelism_mode"
                      : options.sp_size > 1                      ? "sp_size"
                      : options.inner_ring_size > 0              ? "inner_ring_size"
                      : options.enable_sequence_overlap          ? "enable_sequence_overlap"
                                                                 : nullptr;
  if (given != nullptr)
    fail(WEFT_INVALID_ARGUMENT,
         "{} is given, but enable_sequence_parallelism is false; set it, or leave {} out", given, given);
}

}  // namespace

void set_sequence_mode(const SequenceOptions& options, plan::ParallelSizes& sizes) {
  if (!options.enable_sequence_parallelism) return require_nothing_given(options);
  const std::string mode =
      options.sequence_parallelism_mode.empty() ? "all_to_all" : options.sequence_parallelism_mode;
  const int64_t ranks = options.sp_size, inner = options.inner_ring_size;
  const uint32_t code = mode == "split_gather" ? WEFT_SEQUENCE_SPLIT_GATHER
                        : mode == "ring"       ? WEFT_SEQUENCE_RING
                        : mode == "all_to_all" ? WEFT_SEQUENCE_ALL_TO_ALL
                        : mode == "ring_attn"  ? WEFT_SEQUENCE_RING_ATTENTION
                                               : WEFT_SEQUENCE_WHOLE;
  if (code == WEFT_SEQUENCE_WHOLE)
    fail(WEFT_INVALID_ARGUMENT,
         "sequence_parallelism_mode is \"{}\", must be split_gather, ring, all_to_all or ring_attn", mode);
  const bool over_tensor_ranks = code == WEFT_SEQUENCE_SPLIT_GATHER || code == WEFT_SEQUENCE_RING;
  if (over_tensor_ranks && (sizes.tensor < 2 || ranks > 1))
    fail(WEFT_INVALID_ARGUMENT,
         "sequence_parallelism_mode \"{}\" splits sequences over the ranks of tp_size, which is {}, and "
         "sp_size is {}; give tp_size 2 or more and leave sp_size out, or choose all_to_all or ring_attn",
         mode, sizes.tensor, ranks);
  if (!over_tensor_ranks && ranks < 2)
    fail(
        WEFT_INVALID_ARGUMENT,
        "sequence_parallelism_mode \"{}\" splits sequences over the ranks of sp_size, which is {}; give 2 or "
        "more, or choose split_gather or ring",
        mode, ranks);
  if (inner > 0 && (code != WEFT_SEQUENCE_RING_ATTENTION || ranks % inner != 0))
    fail(WEFT_INVALID_ARGUMENT,
         "inner_ring_size is {}: it is for sequence_parallelism_mode ring_attn (this is {}), and must divide "
         "sp_size (this is {})",
         inner, mode, ranks);
  if (options.enable_sequence_overlap && code != WEFT_SEQUENCE_SPLIT_GATHER)
    fail(WEFT_INVALID_ARGUMENT,
         "enable_sequence_overlap is for sequence_parallelism_mode split_gather, this is {}; leave it out{}",
         mode, code == WEFT_SEQUENCE_ALL_TO_ALL ? "" : ", this mode overlaps by itself");
  sizes.sequence = static_cast<uint32_t>(ranks);
  sizes.inner_ring = static_cast<uint32_t>(inner > 0 ? inner : ranks);
  sizes.sequence_mode = code;
  sizes.sequence_overlap = options.enable_sequence_overlap;
}

}  // namespace weft

#include "booster/sequence_mode.hpp"

#include "base/text.hpp"
#include "sequence_modes/sequence_mode.hpp"
#include "weft/error.hpp"

namespace weft {

namespace {

using plan::SequenceMode;
using Axis = SequenceMode::Axis;

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
  const std::string name =
      options.sequence_parallelism_mode.empty() ? "all_to_all" : options.sequence_parallelism_mode;
  const int64_t ranks = options.sp_size, inner = options.inner_ring_size;
  const SequenceMode* const found = plan::find_sequence_mode(name);
  if (found == nullptr || found->axis == Axis::kNone)
    fail(WEFT_INVALID_ARGUMENT, "sequence_parallelism_mode is \"{}\", must be {}", name,
         plan::names_of_modes([](const SequenceMode& mode) { return mode.axis != Axis::kNone; }));
  const bool over_tensor_ranks = found->axis == Axis::kTensor;
  if (over_tensor_ranks && (sizes.tensor < 2 || ranks > 1))
    fail(WEFT_INVALID_ARGUMENT,
         "sequence_parallelism_mode \"{}\" splits sequences over the ranks of tp_size, which is {}, and "
         "sp_size is {}; give tp_size 2 or more and leave sp_size out, or choose {}",
         name, sizes.tensor, ranks,
         plan::names_of_modes([](const SequenceMode& mode) { return mode.axis == Axis::kSequence; }));
  if (!over_tensor_ranks && ranks < 2)
    fail(
        WEFT_INVALID_ARGUMENT,
        "sequence_parallelism_mode \"{}\" splits sequences over the ranks of sp_size, which is {}; give 2 or "
        "more, or choose {}",
        name, ranks,
        plan::names_of_modes([](const SequenceMode& mode) { return mode.axis == Axis::kTensor; }));
  if (inner > 0 && (!found->takes_inner_ring || ranks % inner != 0))
    fail(
        WEFT_INVALID_ARGUMENT,
        "inner_ring_size is {}: it is for sequence_parallelism_mode {} (this is {}), and must divide sp_size "
        "(this is {})",
        inner, plan::names_of_modes([](const SequenceMode& mode) { return mode.takes_inner_ring; }), name,
        ranks);
  if (options.enable_sequence_overlap && !found->takes_overlap)
    fail(WEFT_INVALID_ARGUMENT,
         "enable_sequence_overlap is for sequence_parallelism_mode {}, this is {}; leave it out{}",
         plan::names_of_modes([](const SequenceMode& mode) { return mode.takes_overlap; }), name,
         found->overlaps ? ", this mode overlaps by itself" : "");
  sizes.sequence = static_cast<uint32_t>(ranks);
  sizes.inner_ring = static_cast<uint32_t>(inner > 0 ? inner : ranks);
  sizes.sequence_mode = found->name;
  sizes.sequence_overlap = options.enable_sequence_overlap;
}

}  // namespace weft

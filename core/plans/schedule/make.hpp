// Makes the pipeline schedules that `pp_style` names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"
#include "schedule/simulate.hpp"

namespace weft::pipeline {

// Written p, m and v below: `stages`, `micro_batches` and `chunks`.
struct ScheduleRequest {
  std::string style = "1f1b";
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1;
  // Only zbv reads them; equal costs if absent. Must be the same on all ranks, because each rank makes the
  // schedule itself.
  std::optional<Costs> costs = std::nullopt;
};

// One value of `pp_style`.
struct Style {
  std::string_view name;
  std::string_view summary;  // half a line
  uint32_t fewest_chunks, most_chunks;
  Placement placement;
  bool splits_backward;
};

// gpipe        all forwards, then all backwards. Keeps m activations (Huang et al., arXiv:1811.06965)
// 1f1b         alternates as soon as the first backward can run. Stage s keeps min(m, p - s) activations; the
//              bubble is that of gpipe, (p - 1) / (m + p - 1) if stages cost the same (PipeDream-Flush,
//              arXiv:2006.09503)
// interleaved  the same with v chunks on each stage: the bubble is (p - 1) / (v m + p - 1) for m >= p.
//              Micro-batches pass the chunks in groups of N = ceil(m / floor(m / p)) at most, p if that
//              divides m. Stage s keeps at most min(m v, 2 (p - 1 - s) + (v - 1) N + 1) activations of a
//              chunk (Narayanan et al., arXiv:2104.04473, which needs groups of p)
// zbh1         1f1b with each backward in two halves, of which the second comes s micro-batches later on
// stage
//              s. The bubble is (p - 1) / (3 m + p - 1) if a forward and both halves cost the same and m >=
//              p. Every stage keeps min(m, p) activations at most (ZB-H1 of Qi et al., arXiv:2401.10241)
// zbv          see zbv.hpp
const std::vector<Style>& styles();

// Returns the style of this name. Throws INVALID_ARGUMENT with the names that exist.
const Style& find_style(std::string_view name);

// Makes a schedule for training; `forward_only` of it is one for evaluation. Takes time in proportion to the
// number of operations, zbv times log p. Throws INVALID_ARGUMENT if the style is unknown or does not take so
// many stages, micro-batches or chunks, or if the costs do not fit.
Schedule make_schedule(const ScheduleRequest& request);

}  // namespace weft::pipeline

// The zero-bubble schedule of two chunks in a V.
#pragma once

#include "schedule/schedule.hpp"
#include "schedule/simulate.hpp"

namespace weft::pipeline {

// Stage s runs the virtual stages s and 2 p - 1 - s, so the first and the last one are on stage 0, and the
// turn of the V needs no transfer. Backwards are split: input gradients, for which other stages wait, run
// first; weight gradients, for which nobody waits, fill the gaps (Qi et al., Zero Bubble Pipeline
// Parallelism, arXiv:2401.10241).
//
// A stage never keeps more than 2 p activations of a chunk, as much memory as 1f1b keeps on its first stage.
// If all operations take the same time, transfers take none, and m >= 2 p, no stage is idle between its first
// and its last operation, and the makespan is 6 m + p - 1 operations. For other costs the result is the best
// of a few schedules made by different heuristics, and never slower than the schedule for equal costs.
Schedule make_zbv(uint32_t stages, uint32_t micro_batches, const Costs& costs);

}  // namespace weft::pipeline

// What a strategy must do whose replicas train on their own between two merges
// (weft_strategy_api::merge_interval).
#pragma once

#include "contract/tiny_job.hpp"

namespace weft::contract {

// Whether the strategy has merges.
bool trains_alone(const Run& run);

// Checks it: until they are merged, replicas are trained as one rank each on its own samples; after that they
// are the same, and made of all of them.
void check_merging(const Run& run, const Tell& tell);

}  // namespace weft::contract

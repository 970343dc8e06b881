// What `weft plan` says of pipeline stages: the units of each, and the schedule of their micro-batches.
#pragma once

#include <string>

#include "training/pipeline_options.hpp"
#include "weft/model.hpp"

namespace weft::command {

// Returns which units each stage runs, and the operations of each stage in a step on `samples` samples of one
// data-parallel rank, with their times by the costs of the units. `options` has several stages.
std::string explain_stages(const Model& model, const PipelineOptions& options, int64_t samples);

// Draws the same schedule in an SVG file. Throws INVALID_ARGUMENT if there is one stage only, UNAVAILABLE if
// the file cannot be written; both name --picture.
void draw_stages(const Model& model, const PipelineOptions& options, int64_t samples,
                 const std::string& path);

}  // namespace weft::command

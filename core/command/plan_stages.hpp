// What `weft plan` says of pipeline stages: the units of each, and the schedule of their micro-batches.
#pragma once

#include <string>

#include "training/pipeline_options.hpp"
#include "weft/model.hpp"

namespace weft::command {

// Returns which units each stage runs and which of them are recomputed, and the operations of each stage in a
// step on `samples` samples of one data-parallel rank, with their times by the costs of the units. `options`
// has several stages.
std::string explain_stages(const Model& model, const std::string& recompute, const PipelineOptions& options,
                           int64_t samples);

// Returns the ranks of each stage among `ranks` ranks, `tensor` of which share each layer. The sizes divide
// the number of ranks.
std::string list_ranks(const PipelineOptions& options, uint32_t ranks, uint32_t tensor);

// Writes the operations of the same schedule in a text file, for the option schedule_file. Throws
// INVALID_ARGUMENT if there is one stage only or the model has too few units for the stages, UNAVAILABLE if
// the file cannot be written.
void write_schedule(const Model& model, const PipelineOptions& options, int64_t samples,
                    const std::string& path);

// Draws the same schedule in an SVG file. Throws INVALID_ARGUMENT if there is one stage only, UNAVAILABLE if
// the file cannot be written; both name --picture.
void draw_stages(const Model& model, const PipelineOptions& options, int64_t samples,
                 const std::string& path);

}  // namespace weft::command

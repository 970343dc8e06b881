// Divides the units of a model into the stages of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "schedule/simulate.hpp"
#include "schedule/stage_division.hpp"
#include "training/pipeline_options.hpp"
#include "weft/nn/model.hpp"

namespace weft {

// Returns the virtual stages of the model, which is whole. A unit costs about as much as its parameters have
// elements, because a matrix product takes time in proportion; tables of which it looks up rows cost nothing.
// With PipelineOptions::layers_per_stage the stages have these numbers of layers instead. Throws
// INVALID_ARGUMENT naming pp_size if the model has too few units, num_layers_per_stage if that does not fit.
pipeline::StageDivision divide_model(nn::Model& model, const PipelineOptions& options);

// Returns, for each unit of the model, which is whole, whether it is recomputed in backward: as `recompute`
// says (BoosterOptions), or as the options say for the layers of each virtual stage. Throws INVALID_ARGUMENT
// if both are given or one does not fit the model.
std::vector<bool> recomputed_units(nn::Model& model, const std::string& recompute,
                                   const PipelineOptions& options);

// Returns a schedule of the style's placement, without operations: which stage runs which virtual stage.
pipeline::Schedule placement_of(const PipelineOptions& options);

// Returns what a micro-batch costs at each virtual stage, by the costs with which divide_model divides the
// units: an average forward costs 1, and each half of a backward as much as the forward.
pipeline::Costs stage_costs(nn::Model& model, const PipelineOptions& options);

// Returns the schedule of a training step with so many micro-batches: that of the style, or the given one.
// Throws INVALID_ARGUMENT naming the options if there is none.
pipeline::Schedule stage_schedule(const PipelineOptions& options, int64_t micro_batches);

}  // namespace weft

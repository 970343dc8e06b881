// What a user asks of the pipeline axis: the options of the group "pipeline_axis".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mesh/mesh.hpp"
#include "schedule/schedule.hpp"

namespace weft {

struct PipelineOptions {
  uint32_t size = 1;                                       // ranks along the pipeline axis: the stages
  std::string style = "1f1b";                              // of the schedule
  uint32_t chunks = 1;                                     // virtual stages that each stage runs
  std::optional<int64_t> micro_batches, micro_batch_size;  // at most one of them is given
  RankOrder order = RankOrder::kSamplesOutside;            // how ranks are numbered
  // Layers of each virtual stage; if absent, units are divided by their costs.
  std::optional<std::vector<uint32_t>> layers_per_stage = {};
  // Which layers of each virtual stage are recomputed, beginning with its first: this part of them, or so
  // many. At most one is given; if none is, BoosterOptions::recompute decides.
  std::optional<double> recomputed_part = {};
  std::optional<std::vector<uint32_t>> recomputed_layers = {};
  // What a training step runs instead of the schedule of the style, and the file that it comes from. If the
  // file is given, read_schedule (booster/host_options.hpp) reads it.
  std::shared_ptr<const pipeline::Schedule> schedule = nullptr;
  std::optional<std::string> schedule_file = {};
  uint32_t virtual_stages() const { return size * chunks; }
  // Returns the number of micro-batches into which `samples` samples, at least one, are split.
  int64_t num_micro_batches(int64_t samples) const {
    if (size == 1) return 1;
    if (micro_batches) return *micro_batches;
    return micro_batch_size ? (samples - 1) / *micro_batch_size + 1 : size;
  }
};

}  // namespace weft

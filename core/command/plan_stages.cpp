#include "command/plan_stages.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "mesh/mesh.hpp"
#include "schedule/draw.hpp"
#include "schedule/text.hpp"
#include "training/stages.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

namespace {

struct PlannedSchedule {
  pipeline::Schedule schedule;
  pipeline::Simulation times;
};

PlannedSchedule plan_schedule(const Model& model, const PipelineOptions& options, int64_t samples) {
  const pipeline::Costs costs = stage_costs(model.module(), options);
  pipeline::Schedule schedule = stage_schedule(options, options.num_micro_batches(samples));
  pipeline::Simulation times = pipeline::simulate(schedule, costs);
  return {std::move(schedule), std::move(times)};
}

// Returns what made the schedule.
std::string origin_of(const PipelineOptions& options) {
  return options.schedule == nullptr ? options.style : "schedule_file " + *options.schedule_file;
}

// Throws if there is no schedule for a flag with this effect.
void require_stages(const char* what_it_does, const PipelineOptions& options) {
  if (options.size == 1)
    fail(WEFT_INVALID_ARGUMENT,
         "{} the schedule of pipeline stages, but pp_size is 1; add --strategy NAME -o pp_size=P",
         what_it_does);
}

// Returns a line for each virtual stage.
std::string list_units(nn::Model& model, const std::string& recompute, const PipelineOptions& options,
                       const pipeline::Schedule& schedule) {
  const pipeline::StageDivision division = divide_model(model, options);
  const std::vector<bool> recomputed = recomputed_units(model, recompute, options);
  const std::vector<nn::Unit*> units = model.units();
  std::string text;
  for (uint32_t v = 0; v < division.virtual_stages(); ++v) {
    std::vector<std::string> names;
    for (uint32_t unit = division.begin(v); unit < division.end(v); ++unit)
      names.push_back(units[unit]->name() + (recomputed[unit] ? " (recomputed)" : ""));
    const std::string stage = options.chunks > 1
                                  ? fmt::format("{} chunk {}", schedule.stage_of(v), schedule.chunk_of(v))
                                  : fmt::format("{}", schedule.stage_of(v));
    text += fmt::format("stage {:<5} {}\n", stage, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace

std::string explain_stages(const Model& model, const std::string& recompute, const PipelineOptions& options,
                           int64_t samples) {
  const PlannedSchedule planned = plan_schedule(model, options, samples);
  return list_units(model.module(), recompute, options, planned.schedule) +
         pipeline::explain(planned.schedule, planned.times, origin_of(options)) +
         "  Times: a forward takes as long as its units have parameters, without embeddings; a backward "
         "takes "
         "twice as long, a transfer no time\n";
}

std::string list_ranks(const PipelineOptions& options, uint32_t ranks, uint32_t tensor) {
  weft_mesh sizes;
  sizes.size[axis::kTensor] = tensor;
  sizes.size[axis::kStages] = options.size;
  sizes.size[axis::kData] = ranks / tensor / options.size;
  constexpr uint32_t kMostRuns = 8;  // of which a line tells
  const StageRanks of = ranks_of_stages(sizes, options.order);
  std::string text;
  for (uint32_t stage = 0; stage < options.size; ++stage) {
    std::vector<std::string> runs;
    for (uint32_t run = 0; run < std::min(of.runs, kMostRuns); ++run) {
      const uint32_t first = stage * of.length + run * of.stride;
      runs.push_back(of.length == 1 ? fmt::format("{}", first)
                                    : fmt::format("{}-{}", first, first + of.length - 1));
    }
    if (of.runs > kMostRuns) runs.emplace_back("...");
    text += fmt::format("ranks of stage {}: {}\n", stage, fmt::join(runs, ", "));
  }
  return text;
}

void write_schedule(const Model& model, const PipelineOptions& options, int64_t samples,
                    const std::string& path) {
  require_stages("--schedule-file writes", options);
  divide_model(model.module(), options);  // refuses stages that training would refuse
  const pipeline::Schedule schedule = stage_schedule(options, options.num_micro_batches(samples));
  replace_file(path,
               fmt::format("# {}: {} stages, {} micro-batches\n{}", origin_of(options), schedule.stages,
                           schedule.micro_batches, pipeline::rows(schedule)),
               "--schedule-file " + path);
}

void draw_stages(const Model& model, const PipelineOptions& options, int64_t samples,
                 const std::string& path) {
  require_stages("--picture draws", options);
  const PlannedSchedule planned = plan_schedule(model, options, samples);
  const std::string title = fmt::format("{}: {}, {} stages, {} micro-batches, bubble {:.1f} %",
                                        model.architecture(), origin_of(options), planned.schedule.stages,
                                        planned.schedule.micro_batches, 100 * planned.times.bubble());
  replace_file(path, pipeline::draw_svg(planned.schedule, planned.times, title), "--picture " + path);
}

}  // namespace weft::command

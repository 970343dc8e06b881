#include "command/plan_stages.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/text.hpp"
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

// Returns a line for each virtual stage.
std::string list_units(nn::Model& model, const PipelineOptions& options, const pipeline::Schedule& schedule) {
  const pipeline::StageDivision division = divide_model(model, options);
  const std::vector<nn::Unit*> units = model.units();
  std::string text;
  for (uint32_t v = 0; v < division.virtual_stages(); ++v) {
    std::vector<std::string> names;
    for (uint32_t unit = division.begin(v); unit < division.end(v); ++unit)
      names.push_back(units[unit]->name());
    const std::string stage = options.chunks > 1
                                  ? fmt::format("{} chunk {}", schedule.stage_of(v), schedule.chunk_of(v))
                                  : fmt::format("{}", schedule.stage_of(v));
    text += fmt::format("stage {:<5} {}\n", stage, fmt::join(names, ", "));
  }
  return text;
}

}  // namespace

std::string explain_stages(const Model& model, const PipelineOptions& options, int64_t samples) {
  const PlannedSchedule planned = plan_schedule(model, options, samples);
  return list_units(model.module(), options, planned.schedule) +
         pipeline::explain(planned.schedule, planned.times, options.style) +
         "  Times: a forward takes as long as its units have parameters, without embeddings; a backward "
         "takes "
         "twice as long, a transfer no time\n";
}

void draw_stages(const Model& model, const PipelineOptions& options, int64_t samples,
                 const std::string& path) {
  if (options.size == 1)
    fail(WEFT_INVALID_ARGUMENT,
         "--picture draws the schedule of pipeline stages, but pp_size is 1; add --strategy NAME -o "
         "pp_size=P");
  const PlannedSchedule planned = plan_schedule(model, options, samples);
  const std::string title =
      fmt::format("{}: {}, {} stages, {} micro-batches, bubble {:.1f} %", model.architecture(), options.style,
                  planned.schedule.stages, planned.schedule.micro_batches, 100 * planned.times.bubble());
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << pipeline::draw_svg(planned.schedule, planned.times, title) << std::flush;
  if (!file) fail(WEFT_UNAVAILABLE, "--picture {}: cannot write there: {}", path, std::strerror(errno));
}

}  // namespace weft::command

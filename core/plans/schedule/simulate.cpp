#include "schedule/simulate.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "schedule/check.hpp"
#include "schedule/replay.hpp"

namespace weft::pipeline {

namespace {

// So that the sum over a schedule is finite.
constexpr double kHighestCost = 1e30;

class Clock {
 public:
  Clock(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule),
        costs_(costs),
        forward_(size_t{schedule.virtual_stages()} * schedule.micro_batches),
        gradient_(forward_.size()) {
    for (const auto& operations : schedule.operations) {
      simulation_.stages.emplace_back();
      simulation_.stages.back().operations.reserve(operations.size());
    }
  }

  void run(uint32_t stage, size_t index) {
    const Operation& operation = schedule_.operations[stage][index];
    const uint32_t own = schedule_.virtual_stage(stage, operation.chunk);
    StageTimes& times = simulation_.stages[stage];
    double begin = times.span.end;
    if (const auto need = need_of_neighbour(schedule_, stage, operation)) {
      const double transfer = schedule_.stage_of(need->virtual_stage) == stage ? 0 : costs_.transfer;
      const auto& ends = need->what == Need::What::forward ? forward_ : gradient_;
      begin = std::max(begin, ends[place(need->virtual_stage, operation)] + transfer);
    }
    const double cost = costs_.virtual_stages[own].of(operation.kind), end = begin + cost;
    if (operation.kind == Kind::forward)
      forward_[place(own, operation)] = end;
    else if (operation.kind != Kind::weight_gradient)
      gradient_[place(own, operation)] = end;
    if (times.operations.empty()) times.span.begin = begin;
    times.span.end = end;
    times.busy += cost;
    times.operations.push_back({begin, end});
    simulation_.makespan = std::max(simulation_.makespan, end);
  }

  Simulation take() { return std::move(simulation_); }

 private:
  size_t place(uint32_t virtual_stage, const Operation& operation) const {
    return size_t{virtual_stage} * schedule_.micro_batches + operation.micro_batch;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<double> forward_, gradient_;  // when each ends, by virtual stage and micro-batch
  Simulation simulation_;
};

}  // namespace

double StageCosts::of(Kind kind) const {
  switch (kind) {
    case Kind::forward:
      return forward;
    case Kind::backward:
      return input_gradient + weight_gradient;
    case Kind::input_gradient:
      return input_gradient;
    default:
      return weight_gradient;
  }
}

Costs Costs::equal(uint32_t virtual_stages, StageCosts each, double transfer) {
  return {std::vector<StageCosts>(virtual_stages, each), transfer};
}

double Simulation::bubble() const {
  double busy = 0;
  for (const StageTimes& stage : stages) busy += stage.busy;
  return makespan > 0 ? 1 - busy / (makespan * static_cast<double>(stages.size())) : 0;
}

Simulation simulate(const Schedule& schedule, const Costs& costs) {
  check(costs, schedule.virtual_stages());
  check_ranges(schedule);
  Clock clock(schedule, costs);
  const auto visited = replay(schedule, [&](uint32_t stage, size_t index) { clock.run(stage, index); });
  if (const std::string deadlock = describe_deadlock(schedule, visited); !deadlock.empty())
    fail(WEFT_INVALID_ARGUMENT, "pipeline schedule: stages wait for each other: {}", deadlock);
  return clock.take();
}

uint32_t peak_live(const Schedule& schedule, uint32_t stage) {
  const std::vector<int64_t> one(schedule.chunks, 1);
  return static_cast<uint32_t>(peak_live(schedule, stage, one, one));
}

int64_t peak_live(const Schedule& schedule, uint32_t stage, const std::vector<int64_t>& sizes,
                  const std::vector<int64_t>& between_halves) {
  int64_t live = 0, peak = 0;
  for (const auto& [kind, micro_batch, chunk] : schedule.operations[stage]) {
    if (kind == Kind::forward || kind == Kind::weight_gradient)
      live += kind == Kind::forward ? sizes[chunk] : -between_halves[chunk];
    else
      live += (kind == Kind::input_gradient ? between_halves[chunk] : 0) - sizes[chunk];
    peak = std::max(peak, live);
  }
  return peak;
}

void check(const Costs& costs, uint32_t virtual_stages) {
  if (costs.virtual_stages.size() != virtual_stages)
    fail(WEFT_INVALID_ARGUMENT,
         "pipeline schedule: there are costs for {} virtual stages, but the schedule has {}; give one cost "
         "for each chunk of each stage, in the order of a forward",
         costs.virtual_stages.size(), virtual_stages);
  const auto require = [](double cost, const char* what) {
    if (!(cost >= 0 && cost <= kHighestCost))
      fail(WEFT_INVALID_ARGUMENT, "pipeline schedule: the cost of {} is {}, must be from 0 to {}", what, cost,
           kHighestCost);
  };
  for (const StageCosts& stage : costs.virtual_stages) {
    require(stage.forward, "a forward");
    require(stage.input_gradient, "an input gradient");
    require(stage.weight_gradient, "a weight gradient");
  }
  require(costs.transfer, "a transfer");
}

}  // namespace weft::pipeline

// Simulates one step of a pipeline schedule under given costs. Prints a line of JSON.
//   schedule_times STYLE STAGES MICRO_BATCHES TRANSFER FORWARD:INPUT:WEIGHT...
// There is one cost of a micro-batch for each virtual stage, in the order of a forward: the time of its
// forward, of its input gradient and of its weight gradient; a whole backward takes as long as both
// gradients. TRANSFER is the time between two stages. All are in one unit, which is that of the results.
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "schedule/make.hpp"
#include "schedule/simulate.hpp"

namespace {

namespace pipeline = weft::pipeline;

double number(const std::string& text, const std::string& what) {
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    end = std::string::npos;
  }
  if (text.empty() || end != text.size())
    throw std::invalid_argument(what + " is \"" + text + "\", must be a number");
  return value;
}

uint32_t count(const std::string& text, const std::string& what) {
  const double value = number(text, what);
  if (!(value >= 1 && value <= 1e6) || value != static_cast<uint32_t>(value))
    throw std::invalid_argument(what + " is " + text + ", must be a whole number from 1 to 1000000");
  return static_cast<uint32_t>(value);
}

pipeline::StageCosts stage_costs(const std::string& text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos)
    throw std::invalid_argument("the cost \"" + text + "\" must be FORWARD:INPUT:WEIGHT");
  return {number(text.substr(0, first), "FORWARD"),
          number(text.substr(first + 1, second - first - 1), "INPUT"),
          number(text.substr(second + 1), "WEIGHT")};
}

// Simulates the schedule of a style. With `fitted` it is made for these costs, otherwise for equal ones, as
// in training.
nlohmann::json simulated(pipeline::ScheduleRequest request, const pipeline::Costs& costs, bool fitted) {
  if (fitted) request.costs = costs;
  const pipeline::Simulation times = pipeline::simulate(pipeline::make_schedule(request), costs);
  return {{"makespan", times.makespan}, {"bubble", times.bubble()}};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: schedule_times STYLE STAGES MICRO_BATCHES TRANSFER FORWARD:INPUT:WEIGHT...\n");
    return 2;
  }
  pipeline::Costs costs;
  for (int i = 5; i < argc; ++i) costs.virtual_stages.push_back(stage_costs(argv[i]));
  costs.transfer = number(argv[4], "TRANSFER");
  pipeline::ScheduleRequest request{
      .style = argv[1], .stages = count(argv[2], "STAGES"), .micro_batches = count(argv[3], "MICRO_BATCHES")};
  request.chunks = static_cast<uint32_t>(costs.virtual_stages.size()) / request.stages;
  pipeline::check(costs, request.stages * request.chunks);
  const nlohmann::json line = {{"as_trained", simulated(request, costs, false)},
                               {"made_for_these_costs", simulated(request, costs, true)}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "schedule_times: %s\n", error.what());
  return 1;
}

// What each step of `weft train` measures, in the files of --metrics and --tensorboard.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/phases.hpp"
#include "weft/job.hpp"
#include "weft/step_log.hpp"

namespace weft::command {

class StepMetrics {
 public:
  // Throws UNAVAILABLE on every rank if one of the paths, which may be empty, cannot be written. Collective.
  StepMetrics(const std::string& jsonl, const std::string& tensorboard, const World& world);
  // Begins, or goes on after the step that the run resumes. Bytes sent and time spent before belong to no
  // step. Collective.
  void begin(std::optional<int64_t> resumed_after);
  // Writes a step, with the times since the one before; the first one also names the plugins that are in use.
  // Collective.
  void write(const StepResult& result, int64_t step);
  // Returns the files that could not be written to their end, as StepLog::incomplete() does.
  std::vector<std::string> incomplete() const { return log_.incomplete(); }

 private:
  StepLog log_;
  World world_;
  bool names_plugins_ = false;
  std::map<std::string, int64_t> bytes_before_;
  trace::PhaseTimes times_before_{};
};

}  // namespace weft::command

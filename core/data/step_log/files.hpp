// The files of a StepLog.
#pragma once

#include "base/setting_name.hpp"
#include "step_log/event_file.hpp"
#include "step_log/json_lines.hpp"
#include "weft/step_log.hpp"

namespace weft {

struct StepLog::Files {
  // Errors call the paths by `name`: "jsonl" and "tensorboard".
  Files(const StepLogOptions& options, const World& world, const SettingName& name)
      : lines(options.jsonl, name("jsonl"), world), events(options.tensorboard, name("tensorboard"), world) {}

  step_log::JsonLines lines;
  step_log::EventFile events;
  bool begun = false;
};

}  // namespace weft

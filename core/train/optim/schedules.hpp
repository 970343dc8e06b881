// Makes learning-rate schedules by name, with options as JSON that are checked against an option table.
#pragma once

#include <nlohmann/json.hpp>

#include "base/option_table.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::optim {

// Returns the options of a schedule. Throws NOT_FOUND with the nearest name.
OptionTable schedule_options(std::string_view name);

// Makes a schedule, as optim::schedule (weft/optim/scheduler.hpp).
std::shared_ptr<Schedule> make_schedule(std::string_view name, const nlohmann::json& options);

}  // namespace weft::optim

// Schedules by name with their options as JSON, checked against the option table of each.
#pragma once

#include <nlohmann/json.hpp>

#include "base/option_table.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::optim {

// Throws NOT_FOUND with the nearest name.
OptionTable schedule_options(std::string_view name);

// As optim::schedule.
std::shared_ptr<Schedule> make_schedule(std::string_view name, const nlohmann::json& options);

}  // namespace weft::optim

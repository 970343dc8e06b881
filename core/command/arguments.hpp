// The arguments of the `weft` command, and what several verbs make from them.
#pragma once

#include <chrono>
#include <string>

#include "base/settings.hpp"
#include "checkpoint/missing.hpp"
#include "opening/data_opener.hpp"
#include "weft/weft.hpp"

namespace weft::command {

using nlohmann::json;

// Reads the options of the group "booster", --micro-batch-size and --booster. The strategy is `without`
// ("none", or empty for the default plugin) if neither --strategy nor --booster is given.
BoosterOptions booster_options(const Settings& arguments, const std::string& without);
// Like booster_options(), for a verb that reads the logits: sets the strategy's option parallel_output to
// false, so that every rank has all of them. Throws INVALID_ARGUMENT if the user set it to true.
BoosterOptions booster_options_for_outputs(const Settings& arguments, const std::string& without);
// Opens --model with --architecture, --drop-path and --adapter. Boosting the model throws if its weights lack
// more than `missing` allows, unless --allow-missing is given. For a folder without weights, throws NOT_FOUND
// with Missing::kNothing, and otherwise prints on rank 0 that the model begins with initial values.
Model open_model(const Settings& arguments, const std::string& precision, const World& world,
                 checkpoint::Missing missing);
// Returns what opens --data and --inputs. The opener refers to all of these.
DataOpener data_of(const Settings& arguments, const Model& model, const World& world, int64_t seed = 0,
                   data::Part held_out_part = data::Part::kAll);
// Returns --timeout, which must be more than 0 seconds and at most a year; without it, kDefaultTimeout.
std::chrono::milliseconds timeout(const Settings& arguments);
// Joins the job as launch() does, within --timeout, and checks the arguments. Throws on every rank if the
// ranks run different verbs or have different options, except for paths that each rank reads itself
// ("each_rank" in their declaration): boost() compares their contents. Blocks.
World join_job(const Settings& arguments);

}  // namespace weft::command

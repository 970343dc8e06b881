// Where a job computes if --device does not say so.
#pragma once

#include <optional>
#include <string>

#include "base/settings.hpp"
#include "weft/booster.hpp"

namespace weft::command {

struct DeviceChoice {
  std::string device;
  std::string reason;  // for people: "asked for", "every rank gets a GPU of its own"
};

// Returns the device of --device, or of the file of --booster (`of_options`), or the one that a resumed job
// was saved on (`saved`), or cuda if every rank of each host can have a GPU of its own, and cpu otherwise;
// the same on every rank. Collective.
DeviceChoice choose_device(const Settings& arguments, const std::string& of_options,
                           const std::optional<std::string>& saved, const World& world);

// Returns the options with that device, for a verb that resumes nothing. Says on the master that the job
// computes elsewhere than on the CPU. Collective.
BoosterOptions on_chosen_device(BoosterOptions options, const Settings& arguments, const World& world);

}  // namespace weft::command

// What a device must do: weft/device_kind.hpp, sdk/docs/decisions/0007-one-device-a-process.md.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Runs the device in forks of this process: a device that has computed in a process cannot be used in forks
// of it. A device that this machine lacks is refused by one check, which says what is missing.
void check_device(const std::string& name, const Tell& tell);

}  // namespace weft::contract

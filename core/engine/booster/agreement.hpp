// What every rank of a job must have alike: what differs would be a hang or a wrong gradient later.
#pragma once

#include <nlohmann/json.hpp>

#include "weft/world.hpp"

namespace weft {

// `facts`: what this rank has, by a name for messages. Throws FAILED_PRECONDITION on every rank if another
// rank's differ, naming that rank and the facts with both values. Collective.
void require_agreement(const Communicator& ranks, const nlohmann::json& facts);

}  // namespace weft

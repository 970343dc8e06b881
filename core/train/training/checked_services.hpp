// The services for strategies with a check of every call: on which thread it runs, and in which function
// (plugin_call.hpp).
#pragma once

#include <string_view>

namespace weft {

// Returns the table of this id that checks each call and passes it on to `plain`; `plain` itself where
// checks_contract() is false or the table has nothing to check.
const void* checked_services(std::string_view id, const void* plain);

}  // namespace weft

// SLURM's notations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::launch {

// "n[01-03,7],m2" -> n01 n02 n03 n7 m2. Brackets may stand anywhere and more than once. Throws
// INVALID_ARGUMENT naming `variable` if the list is malformed or has more than 65536 hosts.
std::vector<std::string> expand_host_list(const char* variable, std::string_view text);

// "2(x3),1" -> 2 2 2 1. Errors as above.
std::vector<int> expand_task_counts(const char* variable, std::string_view text);

}  // namespace weft::launch

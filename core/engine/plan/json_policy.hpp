// A shard policy as data: a JSON file that says what a policy in C says through the macros of weft/policy.h.
// sdk/docs/write-a-policy.md has the language.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace weft::plan {

// True for what can only be the path of a file: it has a '/' or ends in ".json".
bool is_json_policy(std::string_view custom_policy);

// Runs against the same table as a policy in C, so that all that validates one validates the other. Throws
// INVALID_ARGUMENT with everything that is wrong in the text, each with `source` and the number of the entry,
// counted from 1.
Policy parse_json_policy(std::string_view text, const std::string& source);

}  // namespace weft::plan

// A shard policy as a JSON file instead of C code. Its entries correspond to the macros of weft/policy.h;
// sdk/docs/write-a-policy.md defines the language.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace weft::plan {

// Returns true if the option is the path of a file: it has a '/' or ends in ".json".
bool is_json_policy(std::string_view custom_policy);

// Parses a JSON policy. The result uses the same table as a policy in C, so both are validated alike. Throws
// INVALID_ARGUMENT with every error in the text, each with `source` and the number of its entry, counted
// from 1.
Policy parse_json_policy(std::string_view text, const std::string& source);

}  // namespace weft::plan

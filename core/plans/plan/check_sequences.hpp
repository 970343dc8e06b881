// Checks that the entries of a plan begin, split and end the model's sequences where its layers need it.
#pragma once

#include <map>
#include <string>

#include "plan/plan.hpp"
#include "plan/problems.hpp"

namespace weft::plan {

// The entries that replace what modules compute, by the paths of the modules.
using EntriesByPath = std::map<std::string, const Replacement*>;

// Adds a text to `found` for each module that does not fit a split sequence. For plans that split sequences
// and end one.
void check_sequences(const ModelDescription& model, const Plan& plan, const EntriesByPath& entries,
                     PerNode& found);

// Returns "c_fc ("h.*.mlp.c_fc" -> weft.linear_column/1)".
inline std::string entry_text(const std::string& name, const Replacement& entry) {
  return fmt::format("{} (\"{}\" -> {})", name, entry.pattern, entry.operation);
}

}  // namespace weft::plan

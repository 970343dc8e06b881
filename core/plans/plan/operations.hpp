// Applies an operation to the attributes and the nodes of an entry.
#pragma once

#include <string>
#include <vector>

#include "operations/registry.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

// Returns the attributes of an entry, completed with defaults and sorted by key. Adds a text to `problems`
// for each attribute that is unknown, given twice, or of a wrong type or value.
std::vector<Attribute> complete_attributes(const Operation& operation, const std::vector<Attribute>& given,
                                           std::vector<std::string>& problems);

// Returns the node with its parameters cut by the operation. `attributes` must be complete. Adds a text to
// `problems` for each thing that does not fit.
PlannedNode cut_node(const Node& node, const Operation& operation, const std::vector<Attribute>& attributes,
                     const ParallelSizes& sizes, std::vector<std::string>& problems);

// Returns the node with all parameters replicated.
PlannedNode whole_node(const Node& node);

}  // namespace weft::plan

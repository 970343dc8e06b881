// What an entry of a plan makes of its attributes and of the nodes that it names.
#pragma once

#include <string>
#include <vector>

#include "operations/registry.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

// Returns the attributes given, completed by the defaults and sorted. Adds to `problems` what is unknown,
// given twice, of a wrong type or value.
std::vector<Attribute> complete_attributes(const Operation& operation, const std::vector<Attribute>& given,
                                           std::vector<std::string>& problems);

// Cuts the parameters of a node; adds to `problems` what does not fit. `attributes` are complete.
PlannedNode cut_node(const Node& node, const Operation& operation, const std::vector<Attribute>& attributes,
                     const ParallelSizes& sizes, std::vector<std::string>& problems);

// A node that stays as it is.
PlannedNode whole_node(const Node& node);

}  // namespace weft::plan

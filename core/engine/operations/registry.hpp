// The operations that a plan may name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "weft/operation.hpp"

namespace weft::plan {

// Returns the operations of this folder, sorted by id.
const std::vector<Operation>& known_operations();

// Finds an operation that a library provides; returns null for an id that it does not know.
using OperationSource = std::function<const Operation*(std::string_view id)>;
// Sets the source that find_operation asks when this folder does not have an id.
void set_operation_source(OperationSource source);

// Returns the operation with this id, from this folder or from the source; null if there is none.
const Operation* find_operation(std::string_view id);

// Returns an error text for an id that find_operation does not know, which names the nearest known ids.
std::string unknown_operation(std::string_view id);

// Returns true if the entry states `fact`.
bool states(const Replacement& entry, Fact fact);
// Returns true if at least one entry of the plan states `fact`.
bool states(const Plan& plan, Fact fact);

// Returns the ids of the operations that can state `fact`, joined by "or".
std::string operations_that_state(Fact fact);

// Returns two Markdown tables for the documentation: the operations, and their attributes.
std::string operations_in_markdown();

}  // namespace weft::plan

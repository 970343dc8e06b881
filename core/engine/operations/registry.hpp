// The operations that a plan may name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "weft/operation.hpp"

namespace weft::plan {

// Those of this folder, sorted by id.
const std::vector<Operation>& known_operations();

// Finds operations that are not of this folder; null for what it does not know.
using OperationSource = std::function<const Operation*(std::string_view id)>;
void set_operation_source(OperationSource source);

// Returns the operation of this id, of this folder or of the source; null if there is none.
const Operation* find_operation(std::string_view id);

// Returns what is wrong with an id that find_operation does not know, with the nearest known ones.
std::string unknown_operation(std::string_view id);

// Returns whether the entry states the fact.
bool states(const Replacement& entry, Fact fact);
// Returns whether some entry of the plan does.
bool states(const Plan& plan, Fact fact);

// Returns the ids of the operations that can state the fact, with "or" between them.
std::string operations_that_state(Fact fact);

// Returns tables of the operations and their attributes in Markdown, for the documentation.
std::string operations_in_markdown();

}  // namespace weft::plan

// The operations that a plan may name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

// Returns the ids of the operations that can state `fact`, joined by "or".
std::string operations_that_state(Fact fact);

}  // namespace weft::plan

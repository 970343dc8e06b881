// What a rank keeps of a parameter, for tests of policies.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "weft/error.hpp"

namespace weft::plan::test {

// Returns `parameter` ("h.0.fc.weight") as the plan has it, or null if it has none.
inline const PlannedParameter* find(const Plan& plan, std::string_view parameter) {
  const size_t dot = parameter.rfind('.');
  const auto in = [&](const PlannedNode& node) -> const PlannedParameter* {
    if (node.path != parameter.substr(0, dot)) return nullptr;
    for (const PlannedParameter& param : node.params)
      if (param.name == parameter.substr(dot + 1)) return &param;
    return nullptr;
  };
  for (const PlannedNode& node : plan.replicated)
    if (const PlannedParameter* found = in(node)) return found;
  for (const Replacement& entry : plan.replacements)
    for (const PlannedNode& node : entry.nodes)
      if (const PlannedParameter* found = in(node)) return found;
  return nullptr;
}

// Returns the shape of the part of `parameter` on a rank. Throws NOT_FOUND if the plan has none.
inline std::vector<int64_t> local(const Plan& plan, std::string_view parameter, uint32_t rank = 0) {
  const PlannedParameter* found = find(plan, parameter);
  if (found == nullptr) throw Error(WEFT_NOT_FOUND, fmt::format("the plan has no {}", parameter));
  return found->local(rank);
}

}  // namespace weft::plan::test

// What a rank keeps of a parameter, for tests of policies.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "weft/error.hpp"

namespace weft::plan::test {

// Returns the shape of the part of `parameter` ("h.0.fc.weight") on rank 0.
inline std::vector<int64_t> local(const Plan& plan, std::string_view parameter) {
  const size_t dot = parameter.rfind('.');
  const auto find = [&](const PlannedNode& node) -> const PlannedParameter* {
    if (node.path != parameter.substr(0, dot)) return nullptr;
    for (const PlannedParameter& param : node.params)
      if (param.name == parameter.substr(dot + 1)) return &param;
    return nullptr;
  };
  for (const PlannedNode& node : plan.replicated)
    if (const PlannedParameter* found = find(node)) return found->local(0);
  for (const Replacement& entry : plan.replacements)
    for (const PlannedNode& node : entry.nodes)
      if (const PlannedParameter* found = find(node)) return found->local(0);
  throw Error(WEFT_NOT_FOUND, fmt::format("the plan has no {}", parameter));
}

}  // namespace weft::plan::test

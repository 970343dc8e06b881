#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "plan/problems.hpp"
#include "transformations/list.hpp"
#include "transformations/transformation.hpp"

namespace weft::transformations {

#define WEFT_DECLARE(name) plan::Transformation name();
WEFT_TRANSFORMATIONS(WEFT_DECLARE)

}  // namespace weft::transformations

namespace weft::plan {

const std::vector<Transformation>& transformations() {
#define WEFT_MAKE(name) transformations::name(),
  static const std::vector<Transformation> kTransformations = {WEFT_TRANSFORMATIONS(WEFT_MAKE)};
  return kTransformations;
}

std::vector<Transformed> transform(const ModelDescription& model, const Plan& plan) {
  std::map<std::string, const Replacement*> entries;
  for (const Replacement& entry : plan.replacements)
    for (const PlannedNode& node : entry.nodes) entries.try_emplace(node.path, &entry);
  std::vector<Transformed> transformed;
  for (const Transformation& transformation : transformations()) {
    PerNode reasons;
    for (const Node& node : model.nodes) {
      const std::vector<std::string>& kinds = transformation.kinds;
      if (std::find(kinds.begin(), kinds.end(), node.kind) == kinds.end()) continue;
      const std::string reason =
          transformation.reason(transformation, {node, entries[node.path]}, plan.sizes);
      if (!reason.empty()) reasons.add(node.path, reason);
    }
    for (const auto& [reason, paths] : reasons.groups())
      transformed.push_back({transformation.name, reason, paths});
  }
  return transformed;
}

std::vector<std::string> options_without_layers(const Plan& plan) {
  std::vector<std::string> lines;
  for (const Transformation& transformation : transformations())
    if (plan.sizes.*transformation.flag == transformation.wanted && !transforms(plan, transformation.name))
      lines.push_back(fmt::format("{} is {}, but {} has no {}; leave it {}", transformation.option,
                                  transformation.wanted, plan.architecture, transformation.layers,
                                  !transformation.wanted));
  return lines;
}

}  // namespace weft::plan

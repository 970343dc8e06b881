#include "install/installers.hpp"

#include <algorithm>

#include "operations/list.hpp"
#include "operations/registry.hpp"
#include "transformations/list.hpp"

namespace weft::operations {

// Weak, so that a missing function is null and a test can name its operation, instead of a failure to link.
#define WEFT_DECLARE(name) \
  __attribute__((weak)) void install_##name(Site& site, const plan::Attributes& attributes);
WEFT_OPERATIONS(WEFT_DECLARE)
#define WEFT_DECLARE_TRANSFORMATION(name) __attribute__((weak)) void install_##name(Site& site);
WEFT_TRANSFORMATIONS(WEFT_DECLARE_TRANSFORMATION)

plan::Operation::Install installer(const plan::Operation& operation) {
  if (operation.install != nullptr) return operation.install;
#define WEFT_INSTALLER(name) &install_##name,
  static const plan::Operation::Install kInstallers[] = {WEFT_OPERATIONS(WEFT_INSTALLER)};
  const std::vector<plan::Operation>& known = plan::known_operations();
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const auto& other) { return other.id == operation.id; });
  return found == known.end() ? nullptr : kInstallers[found - known.begin()];
}

Transform transformer(std::string_view transformation) {
#define WEFT_TRANSFORMER(name) \
  if (transformation == #name) return &install_##name;
  WEFT_TRANSFORMATIONS(WEFT_TRANSFORMER)
  return nullptr;
}

}  // namespace weft::operations

#include "operations/registry.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "operations/list.hpp"

namespace weft::operations {

#define WEFT_DECLARE(name) plan::Operation name();
WEFT_OPERATIONS(WEFT_DECLARE)

}  // namespace weft::operations

namespace weft::plan {

const std::vector<Operation>& known_operations() {
#define WEFT_MAKE(name) operations::name(),
  static const std::vector<Operation> kOperations = {WEFT_OPERATIONS(WEFT_MAKE)};
  return kOperations;
}

namespace {

OperationSource& source() {
  static OperationSource source;
  return source;
}

}  // namespace

void set_operation_source(OperationSource found_by) {
  source() = std::move(found_by);
}

const Operation* find_operation(std::string_view id) {
  const std::vector<Operation>& operations = known_operations();
  const auto found =
      std::find_if(operations.begin(), operations.end(), [&](const auto& o) { return o.id == id; });
  if (found != operations.end()) return &*found;
  return source() ? source()(id) : nullptr;
}

std::string unknown_operation(std::string_view id) {
  const std::string_view name = id.substr(0, id.rfind('/'));
  std::vector<std::string> ids;
  for (const Operation& operation : known_operations()) {
    ids.push_back(operation.id);
    if (std::string_view(operation.id).substr(0, operation.id.rfind('/')) == name) {
      return fmt::format("this host has the operation \"{}\", not its revision \"{}\"", operation.id, id);
    }
  }
  return fmt::format("no operation is called \"{}\"{} Known: {}", id,
                     nearest(id, ids) ? did_you_mean(id, ids) : std::string("."), fmt::join(ids, ", "));
}

std::string operations_that_state(Fact fact) {
  std::vector<std::string> ids;
  for (const Operation& operation : known_operations())
    if (std::any_of(operation.claims.begin(), operation.claims.end(),
                    [&](const Claim& claim) { return claim.fact == fact; }))
      ids.push_back(operation.id);
  return fmt::format("{}", fmt::join(ids, " or "));
}

}  // namespace weft::plan

#include "operations/registry.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "operations/list.hpp"
#include "plan/traffic.hpp"

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

bool states(const Replacement& entry, Fact fact) {
  const Operation* operation = find_operation(entry.operation);
  if (operation == nullptr) return false;
  return std::any_of(operation->claims.begin(), operation->claims.end(), [&](const Claim& claim) {
    return claim.fact == fact &&
           (claim.key.empty() || Attributes(entry.attributes).flag(claim.key) == claim.value);
  });
}

bool states(const Plan& plan, Fact fact) {
  return std::any_of(plan.replacements.begin(), plan.replacements.end(),
                     [&](const Replacement& entry) { return states(entry, fact); });
}

std::string operations_that_state(Fact fact) {
  std::vector<std::string> ids;
  for (const Operation& operation : known_operations())
    if (std::any_of(operation.claims.begin(), operation.claims.end(),
                    [&](const Claim& claim) { return claim.fact == fact; }))
      ids.push_back(operation.id);
  return fmt::format("{}", fmt::join(ids, " or "));
}

std::string operations_in_markdown() {
  std::string text =
      "| operation | layers | what it does | each rank keeps | forward | backward |\n"
      "|---|---|---|---|---|---|\n";
  for (const Operation& operation : known_operations()) {
    std::array<std::vector<std::string>, 2> passes;
    for (const Transfer& transfer : operation.transfers) {
      const std::array<std::string, 2> texts = document(transfer);
      for (size_t pass = 0; pass < texts.size(); ++pass)
        if (!texts[pass].empty()) passes[pass].push_back(texts[pass]);
    }
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", operation.id, fmt::join(operation.kinds, ", "),
                        operation.documentation, operation.keeps, fmt::join(passes[0], "; "),
                        fmt::join(passes[1], "; "));
  }
  text += "\n| attribute | of | default | meaning |\n|---|---|---|---|\n";
  for (const Operation& operation : known_operations())
    for (const AttributeRule& rule : operation.attributes)
      text += fmt::format("| `{}` | `{}` | `{}` | {}{} |\n", rule.standard.key, operation.id,
                          value_text(rule.standard), rule.documentation,
                          rule.choices.empty() ? "" : fmt::format(" ({})", fmt::join(rule.choices, ", ")));
  return text;
}

}  // namespace weft::plan

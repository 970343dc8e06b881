#include "opening/library_operations.hpp"

#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "base/text.hpp"
#include "opening/stable_operation.hpp"
#include "operations/registry.hpp"
#include "plugins.hpp"

namespace weft {

namespace {

struct Found {
  const plan::Operation* operation;
  std::string library;
};

std::mutex mutex;
std::map<std::string, Found, std::less<>> found_before;  // by id

void check(const plan::Operation& operation, std::string_view id, const std::string& library) {
  const char* missing = operation.id != id                ? "another id"
                        : operation.kinds.empty()         ? "no kinds of modules"
                        : operation.documentation.empty() ? "no documentation"
                        : operation.install == nullptr    ? "no install function"
                                                          : nullptr;
  if (missing != nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{}: its operation \"{}\" has {}", library, printable(id), missing);
}

const plan::Operation* find_native(const weft_loaded& library, std::string_view id) {
  const auto& factory = plugin_factory<plan::OperationFactory>(library, plan::kOperationFactory);
  const plan::Operation* operation = factory.find(id);
  if (operation != nullptr) check(*operation, id, std::string(view(library.path)));
  return operation;
}

const plan::Operation* find_stable(const weft_loaded& library, std::string_view id) {
  static auto* const made = new std::deque<plan::Operation>;  // never destroyed, as those of libraries
  const auto& factory = plugin_factory<weft_operation_factory>(library, WEFT_FACTORY_OPERATION);
  const weft_operation* const table = factory.find(&factory, borrow(id));
  if (table == nullptr) return nullptr;
  return &made->emplace_back(stable_operation(*table, id, std::string(view(library.path))));
}

const plan::Operation* find(std::string_view id) {
  const std::lock_guard lock(mutex);
  if (const auto found = found_before.find(id); found != found_before.end()) return found->second.operation;
  const std::string name(id.substr(0, id.find('/')));
  if (!is_plain_name(name)) return nullptr;
  weft_loaded library{};
  try {
    library = load_plugin("operation", name);
  } catch (const Error& error) {
    if (error.status() == WEFT_NOT_FOUND) return nullptr;
    throw;
  }
  const plan::Operation* operation =
      library.tier == WEFT_TIER_STABLE ? find_stable(library, id) : find_native(library, id);
  if (operation == nullptr) return nullptr;
  found_before[std::string(id)] = {operation, plugin_identity(library)};
  return operation;
}

}  // namespace

void find_library_operations() {
  plan::set_operation_source(find);
}

std::string operation_libraries(const plan::Plan& plan) {
  std::set<std::string> libraries;
  const std::lock_guard lock(mutex);
  for (const plan::Replacement& entry : plan.replacements)
    if (const auto found = found_before.find(entry.operation); found != found_before.end())
      libraries.insert(found->second.library);
  return fmt::format("{}", fmt::join(libraries, ", "));
}

}  // namespace weft

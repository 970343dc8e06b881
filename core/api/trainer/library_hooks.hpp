// Hooks of libraries of plugin kind "hook", as users choose them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "trainer/c_hook.hpp"

namespace weft {

// Makes the hook of a library as library_hook() does.
std::shared_ptr<HookInC> open_library_hook(const std::string& name, const nlohmann::json& options);

// Makes the hooks that the setting "hook" names, with the options of "hook_options", NAME.KEY=VALUE or an
// object with keys NAME.KEY. Throws on every rank INVALID_ARGUMENT for options of a hook that is not named,
// what library_hook() throws, and what require_same_hooks() does. Collective.
std::vector<std::shared_ptr<HookInC>> library_hooks(const Settings& settings, const World& world);

// Throws FAILED_PRECONDITION on every rank if the ranks have different hooks. Collective.
void require_same_hooks(const std::vector<std::shared_ptr<HookInC>>& hooks, const World& world);

}  // namespace weft

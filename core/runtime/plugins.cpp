#include "plugins.hpp"

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error_sink.hpp"
#include "base/text.hpp"

namespace weft {

namespace {
std::atomic<weft_runtime*> application_runtime = nullptr;
}

void use_plugin_runtime(weft_runtime* runtime) {
  application_runtime = runtime;
}

weft_runtime* plugin_runtime() {
  if (weft_runtime* const given = application_runtime) return given;
  static weft_runtime* const runtime = [] {
    weft_runtime* made = nullptr;
    ErrorSink error;
    error.check(weft_runtime_create(borrow(""), &made, error));
    return made;
  }();
  return runtime;
}

weft_loaded load_plugin(std::string_view kind, std::string_view name, std::string_view version) {
  weft_loaded loaded{};
  loaded.struct_size = sizeof(loaded);
  ErrorSink error;
  error.check(
      weft_runtime_load(plugin_runtime(), borrow(kind), borrow(name), borrow(version), &loaded, error));
  return loaded;
}

std::vector<std::string> provided_names(std::string_view kind) {
  weft_str text{};
  ErrorSink error;
  error.check(weft_runtime_list(plugin_runtime(), &text, error));
  const nlohmann::json listing = nlohmann::json::parse(view(text));
  weft_text_destroy(text);
  std::set<std::string> names;
  for (const nlohmann::json& plugin : listing.at("plugins")) {
    if (plugin.contains("problem") || plugin.at("kind") != kind) continue;
    for (const nlohmann::json& name : plugin.at("provides")) names.insert(name.get<std::string>());
  }
  return {names.begin(), names.end()};
}

const void* find_factory(const weft_loaded& loaded, const char* id) {
  const void* factory = loaded.plugin->get_factory(loaded.plugin, borrow(id));
  if (factory == nullptr)
    fail(WEFT_FAILED_PRECONDITION,
         "plugin {} {} ({}) has no factory \"{}\"; it was built for another version of Weft", view(loaded.id),
         view(loaded.version), view(loaded.path), id);
  return factory;
}

std::string plugin_identity(const weft_loaded& loaded) {
  return fmt::format("{} {} {} {} abi {}.{}", view(loaded.kind), view(loaded.id), view(loaded.version),
                     view(loaded.digest), WEFT_ABI_MAJOR, loaded.abi_minor);
}

}  // namespace weft

#include "plugins.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error_sink.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"

namespace weft {

namespace {

std::atomic<weft_runtime*> application_runtime = nullptr;

struct Used {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, UsedPlugin> plugins;  // by kind and id
};

Used& used() {
  static Used* const used = new Used;  // threads may load until the process ends
  return *used;
}

}  // namespace

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

weft_loaded load_plugin(std::string_view kind, std::string_view name) {
  weft_loaded loaded{};
  loaded.struct_size = sizeof(loaded);
  ErrorSink error;
  error.check(weft_runtime_load(plugin_runtime(), borrow(kind), borrow(name), borrow(""), &loaded, error));
  UsedPlugin plugin = {std::string(view(loaded.kind)), std::string(view(loaded.id)),
                       std::string(view(loaded.version)), plugin_identity(loaded)};
  const std::lock_guard lock(used().mutex);
  used().plugins[{plugin.kind, plugin.id}] = std::move(plugin);
  return loaded;
}

std::string plugin_name(std::string_view asked) {
  return std::string(asked.substr(0, asked.find('@')));
}

std::vector<UsedPlugin> used_plugins() {
  std::vector<UsedPlugin> plugins;
  const std::lock_guard lock(used().mutex);
  for (const auto& [place, plugin] : used().plugins) plugins.push_back(plugin);
  return plugins;
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

void require_same_plugins(const Communicator& ranks) {
  nlohmann::json facts = nlohmann::json::object();
  for (const UsedPlugin& plugin : used_plugins())
    facts[fmt::format("{} {}", plugin.kind, plugin.id)] = plugin.identity;
  // Ranks may have looked at devices and formats that others did not need.
  for (const std::string& text : gather_from_every_rank(ranks, [&] { return facts.dump(); })) {
    const nlohmann::json others = nlohmann::json::parse(text);
    for (auto fact = facts.begin(); fact != facts.end();)
      fact = others.contains(fact.key()) ? std::next(fact) : facts.erase(fact);
  }
  require_agreement(ranks, facts);
}

}  // namespace weft

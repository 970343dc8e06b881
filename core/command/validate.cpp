// The second half of `weft plugins validate`: what plugins of a kind must do, which takes the engine.
#include <filesystem>

#include "base/error_sink.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/options.hpp"
#include "command/command.hpp"
#include "contract/contract.hpp"
#include "plugins.hpp"

namespace weft::command {

namespace {

using nlohmann::json;

// Writes an event as a line, as the command reads it.
void write_event(int fd, const json& event) {
  write_all(fd, event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

// Lets the engine find plugins in `root`, too, before all other folders.
void search_in(const std::string& root) {
  const std::string options = json({{"plugin_paths", {root}}}).dump();
  weft_runtime* runtime = nullptr;
  ErrorSink error;
  error.check(weft_runtime_create(borrow(options), &runtime, error));
  use_plugin_runtime(runtime);
}

// Returns why a user who names the plugin and its version would not get this library, or "".
std::string other_library(const weft_loaded& loaded, const std::string& kind, const std::string& name,
                          const std::string& file) {
  std::error_code ignored;
  const std::string found(view(loaded.path));
  if (std::filesystem::equivalent(found, file, ignored)) return "";
  return fmt::format("{} \"{}\" of this version is found in {}; give this library another version", kind,
                     name, found);
}

// Reads KEY=VALUE by the options that the plugin's manifest declares.
std::string options_of(const weft_loaded& loaded, const std::vector<std::string>& words) {
  if (words.empty()) return "{}";
  const std::string source = fmt::format("plugin.json of {}", view(loaded.id));
  const OptionTable table = option_table_of_plugin(parse_json(view(loaded.manifest), source), source);
  return parse_assignments(table, words, fmt::format("{} {}", view(loaded.kind), view(loaded.id))).dump();
}

}  // namespace

// Arguments: one "library" as the host tells it, "options" of the plugin as KEY=VALUE, the paths "model" and
// "data", which may be empty, and the descriptor "events".
int validate(const json& arguments) {
  const json& library = arguments.at("library");
  const std::string kind = library.at("kind"), file = library.at("file"), version = library.at("version");
  const auto words = arguments.at("options").get<std::vector<std::string>>();
  const std::string model = arguments.at("model"), data = arguments.at("data");
  if (!contract::has_suite(kind)) {
    if (!words.empty() || !model.empty() || !data.empty())
      fail(WEFT_INVALID_ARGUMENT,
           "{} is given, but for plugins of kind {} only the checks for all plugins run",
           !words.empty() ? "-o"
           : data.empty() ? "--model"
                          : "--data",
           kind);
    return 0;
  }
  const int fd = arguments.at("events").get<int>();
  const auto names = library.at("provides").get<std::vector<std::string>>();
  search_in(library.at("root"));
  for (const std::string& name : names) {
    const std::string prefix = names.size() > 1 ? name + ", " : "";
    const auto tell = [&](const contract::Check& check) {
      write_event(
          fd, {{"check", {{"name", prefix + check.name}, {"passed", check.passed}, {"text", check.text}}}});
    };
    // This version, whatever is newer or pinned. It is then the one that the checks get by the name alone.
    const weft_loaded loaded = load_plugin(kind, fmt::format("{}@={}", name, version));
    const std::string other = other_library(loaded, kind, name, file);
    tell({"is found by its name", other.empty(), other});
    if (other.empty()) contract::check({kind, name, options_of(loaded, words), model, data}, tell);
  }
  return 0;
}

}  // namespace weft::command

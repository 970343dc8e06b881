// The second half of `weft plugins validate`: what plugins of a kind must do, which takes the engine.
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error_sink.hpp"
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
  const std::string text = event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) done += static_cast<size_t>(written);
  }
}

// Lets the engine find plugins in `root`, too, before all other folders.
void search_in(const std::string& root) {
  const std::string options = json({{"plugin_paths", {root}}}).dump();
  weft_runtime* runtime = nullptr;
  ErrorSink error;
  error.check(weft_runtime_create(borrow(options), &runtime, error));
  use_plugin_runtime(runtime);
}

// Returns why a user who names the plugin would not get this library, or "".
std::string other_library(const weft_loaded& loaded, const std::string& kind, const std::string& name,
                          const std::string& file) {
  std::error_code ignored;
  const std::string found(view(loaded.path));
  if (std::filesystem::equivalent(found, file, ignored)) return "";
  return fmt::format(
      "{} \"{}\" is found in {}; install this library under its own id and version, or leave "
      "the other one out with WEFT_PLUGIN_DISABLE",
      kind, name, found);
}

// Reads KEY=VALUE by the options that the plugin's manifest declares.
json plugin_options(const weft_loaded& loaded, const std::vector<std::string>& words) {
  const std::string source = fmt::format("plugin.json of {}", view(loaded.id));
  const OptionTable table = option_table_of_plugin(parse_json(view(loaded.manifest), source), source);
  return parse_assignments(table, words, fmt::format("{} {}", view(loaded.kind), view(loaded.id)));
}

}  // namespace

// Arguments: one "library" as the host tells it, "options" of the plugin as KEY=VALUE, the descriptor
// "events".
int validate(const json& arguments) {
  const json& library = arguments.at("library");
  const std::string kind = library.at("kind"), file = library.at("file");
  if (!contract::has_suite(kind)) return 0;
  const int fd = arguments.at("events").get<int>();
  const auto words = arguments.at("options").get<std::vector<std::string>>();
  const auto names = library.at("provides").get<std::vector<std::string>>();
  search_in(library.at("root"));
  for (const std::string& name : names) {
    const std::string prefix = names.size() > 1 ? name + ", " : "";
    const auto tell = [&](const contract::Check& check) {
      write_event(
          fd, {{"check", {{"name", prefix + check.name}, {"passed", check.passed}, {"text", check.text}}}});
    };
    const weft_loaded loaded = load_plugin(kind, name);
    const std::string other = other_library(loaded, kind, name, file);
    tell({"is found by its name", other.empty(), other});
    if (other.empty()) contract::check({kind, name, plugin_options(loaded, words).dump()}, tell);
  }
  return 0;
}

}  // namespace weft::command

// `weft plugins`: lists, shows, checks, installs and pins plugins.
#include <weft/runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/option_groups.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "host/command.h"
#include "new_plugin.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

using nlohmann::json;

struct Flags {
  bool as_json = false;
  std::string name;  // of a plugin, or of a file
};

// Calls a function of libweft that returns JSON.
json call(const std::function<weft_status(weft_str*, weft_error*)>& function) {
  const std::unique_ptr<weft_error, decltype(&weft_error_destroy)> error(weft_error_create(),
                                                                         weft_error_destroy);
  weft_str text = {};
  const weft_status status = function(&text, error.get());
  if (status != WEFT_OK) throw Error(status, std::string(view(weft_error_text(error.get()))));
  const std::unique_ptr<const char, std::function<void(const char*)>> owner(
      text.data, [text](const char*) { weft_text_destroy(text); });
  return json::parse(view(text));
}

// Calls a function that takes a runtime first, and then what is given here.
template <typename... Arguments>
json call_with_runtime(weft_status (*function)(weft_runtime*, Arguments..., weft_str*, weft_error*),
                       Arguments... arguments) {
  return call([&](weft_str* text, weft_error* error) {
    weft_runtime* runtime = nullptr;
    weft_status status = weft_runtime_create(WEFT_STR(""), &runtime, error);
    if (status == WEFT_OK) status = function(runtime, arguments..., text, error);
    weft_runtime_destroy(runtime);
    return status;
  });
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

// Replaces control characters, because manifests are untrusted text.
std::string text_at(const json& entry, const char* key) {
  return printable(entry.value(key, std::string()), 4000);
}

std::string joined(const json& names) {
  return fmt::format("{}", fmt::join(names.get<std::vector<std::string>>(), " "));
}

// Prints a table: columns as wide as their widest cell, two spaces apart.
std::string make_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string searched_text(const json& listing) {
  std::string text = "Searched, in this order:\n";
  for (const json& root : listing.at("searched")) {
    text += fmt::format("  {} ({}{})\n", text_at(root, "path"), text_at(root, "from"),
                        root.at("exists").get<bool>() ? "" : "; not there");
  }
  for (const json& note : listing.at("notes")) text += fmt::format("  {}\n", note.get<std::string>());
  return text;
}

void list(const Flags& flags) {
  const json listing = call_with_runtime(weft_runtime_list);
  if (flags.as_json) return print(listing.dump(2) + "\n");
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "KIND", "TIER", "PROVIDES"}};
  std::string problems;
  bool has_default = false;
  for (const json& plugin : listing.at("plugins")) {
    if (plugin.contains("problem")) {
      problems += fmt::format("  {} {}: {}\n", text_at(plugin, "id"), text_at(plugin, "version"),
                              text_at(plugin, "problem"));
      continue;
    }
    const bool is_default = plugin.at("default").get<bool>();
    has_default |= is_default;
    const std::string pinned = plugin.contains("pinned") ? " (pinned)" : "";
    rows.push_back({text_at(plugin, "id") + (is_default ? " *" : ""), text_at(plugin, "version") + pinned,
                    text_at(plugin, "kind"), text_at(plugin, "tier"), joined(plugin.at("provides"))});
  }
  if (rows.size() == 1) {
    print("No plugin was found.\n" + searched_text(listing));
  } else {
    print(make_table(rows) + (has_default ? "* is taken where no name is given\n" : ""));
  }
  if (!problems.empty()) print("Passed over (`weft plugins doctor` tells more):\n" + problems);
}

void print_options(const OptionTable& table) {
  if (table.specs().empty()) return print("  options: none\n");
  print("  options:\n");
  std::vector<std::vector<std::string>> rows = {{"    NAME", "TYPE", "DEFAULT", "BY", "SINCE", "MEANING"}};
  for (const OptionSpec& spec : table.specs()) {
    std::string default_text = "must be given";
    if (spec.default_value) default_text = written(*spec.default_value);
    const std::string needs = spec.needs.always() ? "" : fmt::format(" (only with {})", spec.needs.text());
    rows.push_back({"    " + spec.name, type_name(spec.kind), default_text, spec.by, spec.since,
                    printable(spec.doc + needs, 4000)});
  }
  print(make_table(rows));
}

void print_manifest(const std::string& folder, const json& manifest) {
  print(fmt::format("{} {}\n", text_at(manifest, "id"), text_at(manifest, "version")));
  for (const char* key : {"description", "license", "url"}) {
    if (manifest.contains(key)) print(fmt::format("  {}: {}\n", key, text_at(manifest, key)));
  }
  const json& abi = manifest.at("abi");
  print(fmt::format("  folder: {}\n  ABI: {}.{} to {}.{}\n", folder, abi.at("major").dump(),
                    abi.at("minor_min").dump(), abi.at("major").dump(), abi.at("minor").dump()));
  for (const json& library : manifest.at("libraries")) {
    std::string tag = text_at(library, "torch_tag");
    if (library.contains("torch_min")) tag = "libtorch " + text_at(library, "torch_min") + " and later";
    print(fmt::format("  {}: {}, tier {}{}, provides {}\n", text_at(library, "file"),
                      text_at(library, "kind"), text_at(library, "tier"), tag.empty() ? "" : " (" + tag + ")",
                      joined(library.at("provides"))));
  }
  print_options(option_table_of_plugin(manifest, folder));
}

void show(const Flags& flags) {
  const json listing = call_with_runtime(weft_runtime_list);
  std::vector<std::string> names, folders;
  json found = json::array();
  for (const json& plugin : listing.at("plugins")) {
    if (!plugin.contains("provides")) continue;
    std::vector<std::string> own_names = plugin.at("provides");
    own_names.push_back(text_at(plugin, "id"));
    names.insert(names.end(), own_names.begin(), own_names.end());
    const std::string folder = text_at(plugin, "folder");
    const bool is_meant = std::find(own_names.begin(), own_names.end(), flags.name) != own_names.end();
    if (!is_meant || std::find(folders.begin(), folders.end(), folder) != folders.end()) continue;
    folders.push_back(folder);
    found.push_back(parse_json(read_file(folder + "/plugin.json", 1 << 20), folder + "/plugin.json"));
    found.back()["folder"] = folder;
    if (plugin.contains("problem")) found.back()["problem"] = plugin.at("problem");
  }
  if (found.empty()) {
    fail(WEFT_NOT_FOUND, "no plugin is called \"{}\"{}\n`weft plugins list` shows what there is",
         printable(flags.name), did_you_mean(flags.name, names));
  }
  if (flags.as_json) {  // with all options resolved in place of the groups that declare them
    for (json& manifest : found) {
      manifest["options"] = options_of_plugin(manifest, text_at(manifest, "folder"));
      manifest.erase("groups");
      manifest.erase("defaults");
    }
    return print(found.dump(2) + "\n");
  }
  for (const json& manifest : found) {
    print_manifest(text_at(manifest, "folder"), manifest);
    if (manifest.contains("problem")) print(fmt::format("  problem: {}\n", text_at(manifest, "problem")));
  }
}

void doctor(const Flags& flags) {
  const json listing = inspect_plugins();
  if (flags.as_json) return print(listing.dump(2) + "\n");
  print(searched_text(listing));
  size_t num_good = 0;
  for (const json& plugin : listing.at("plugins")) {
    std::string name = fmt::format("{} {}", text_at(plugin, "id"), text_at(plugin, "version"));
    if (plugin.contains("kind")) name += fmt::format(" ({})", text_at(plugin, "kind"));
    num_good += !plugin.contains("problem");
    print(fmt::format("{}\n  {}\n", name, text_at(plugin, "folder")));
    print(plugin.contains("problem")
              ? fmt::format("  {}: {}\n", plugin.value("damaged", false) ? "damaged" : "passed over",
                            text_at(plugin, "problem"))
              : "  can be loaded\n");
    for (const json& warning : plugin.value("warnings", json::array())) {
      print(fmt::format("  warning: {}\n", warning.get<std::string>()));
    }
  }
  print(fmt::format("{} of {} libraries can be loaded.\n", num_good, listing.at("plugins").size()));
}

void digest(const Flags& flags) {
  const std::string digest = sha256_file(flags.name);
  print(flags.as_json ? json({{"file", flags.name}, {"sha256", digest}}).dump(2) + "\n" : digest + "\n");
}

void install(const Flags& flags) {
  const json done = call_with_runtime(weft_plugins_install, borrow(flags.name));
  if (flags.as_json) return print(done.dump(2) + "\n");
  print(fmt::format("{} {} is installed in {}\n", text_at(done, "id"), text_at(done, "version"),
                    text_at(done, "folder")));
  if (done.contains("pinned"))
    print(fmt::format("{0} is pinned to version {1}, which jobs go on using; `weft plugins unpin {0}`\n",
                      text_at(done, "id"), text_at(done, "pinned")));
}

void remove(const Flags& flags) {
  const json done = call_with_runtime(weft_plugins_remove, borrow(flags.name));
  print(flags.as_json ? done.dump(2) + "\n"
                      : fmt::format("{} {} is removed from {}\n", text_at(done, "id"),
                                    text_at(done, "version"), text_at(done, "folder")));
}

void pin(const Flags& flags) {
  const json done = call_with_runtime(weft_plugins_pin, borrow(flags.name));
  print(flags.as_json ? done.dump(2) + "\n"
                      : fmt::format("{} is pinned to version {}: jobs that name none use {}\n",
                                    text_at(done, "id"), text_at(done, "pinned"), text_at(done, "version")));
}

void unpin(const Flags& flags) {
  const json done = call_with_runtime(weft_plugins_unpin, borrow(flags.name));
  print(flags.as_json
            ? done.dump(2) + "\n"
            : fmt::format("{} is not pinned any more, as it was to version {}: jobs use the newest\n",
                          text_at(done, "id"), text_at(done, "pinned")));
}

CLI::App* add_verb(CLI::App* plugins, const char* name, const char* what, const char* argument,
                   const char* example, void (*action)(const Flags&)) {
  CLI::App* verb = plugins->add_subcommand(name, what);
  const auto flags = std::make_shared<Flags>();
  verb->add_flag("--json", flags->as_json, "Print JSON");
  if (argument != nullptr) verb->add_option(argument, flags->name)->required();
  verb->footer(std::string("Example: ") + example);
  verb->callback([flags, action] { action(*flags); });
  return verb;
}

}  // namespace

json inspect_plugins() {
  return call_with_runtime(weft_plugins_doctor);
}

void add_plugins(CLI::App& application) {
  CLI::App* plugins = application.add_subcommand("plugins", "List, check, begin, install and pin plugins");
  plugins->require_subcommand(1);
  plugins->footer(
      "Weft searches for plugins in WEFT_PLUGIN_ADD_PATH, then in WEFT_PLUGIN_PATH if it is set, otherwise\n"
      "in ~/.local/share/weft/plugins and the folder installed with Weft. WEFT_PLUGIN_SELECT and\n"
      "WEFT_PLUGIN_DISABLE are patterns of names; WEFT_PLUGIN_SAFE=1 uses only plugins that were installed\n"
      "with Weft. A VERSION is 0.3 (the newest 0.3.x), =0.3.1 (this one alone) or 1.0.0-rc.1 (a "
      "pre-release).\n"
      "Example: weft plugins list");
  add_verb(plugins, "list", "List every plugin that was found, without loading it", nullptr,
           "weft plugins list --json", list);
  add_verb(plugins, "show", "Show a plugin and all of its options, without loading it", "NAME",
           "weft plugins show NAME", show);
  add_verb(plugins, "doctor", "Show which plugins cannot be loaded and why, without loading any", nullptr,
           "weft plugins doctor", doctor);
  add_validate(*plugins);
  add_new_plugin(*plugins);
  add_verb(plugins, "install",
           "Check a plugin and install it in your own folder of plugins, beside its other versions",
           "FOLDER_OR_ARCHIVE", "weft plugins install my_plugin-1.1.0.tar.gz", install);
  add_verb(plugins, "remove", "Remove a version of a plugin from your own folder of plugins",
           "NAME[@VERSION]", "weft plugins remove my_plugin@1.1.0", remove);
  add_verb(plugins, "pin", "Choose the version of a plugin that jobs use if they name none", "NAME@VERSION",
           "weft plugins pin my_plugin@1.0.0", pin);
  add_verb(plugins, "unpin", "Remove a pin: jobs use the newest version again", "NAME",
           "weft plugins unpin my_plugin", unpin);
  add_verb(plugins, "digest", "Print the SHA-256 of a file, as a manifest needs it", "FILE",
           "weft plugins digest my_plugin.so", digest);
}

}  // namespace weft::cli

#include "trainer/library_hooks.hpp"

#include <algorithm>
#include <map>

#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "opening/library_options.hpp"
#include "plugins.hpp"
#include "weft/hooks.hpp"

namespace weft {

using nlohmann::json;

namespace {

constexpr const char* kKind = "hook";

std::string who_is(const std::string& name) {
  return fmt::format("hook {}", plugin_name(name));
}

const weft_hook_factory& factory_of(const weft_loaded& loaded, const std::string& who) {
  const auto& factory = plugin_factory<weft_hook_factory>(loaded, WEFT_FACTORY_HOOK);
  const bool whole = factory.struct_size >= WEFT_END_OF(weft_hook_factory, destroy);
  if (!whole || factory.create == nullptr || factory.destroy == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{} of {}: its factory lacks create or destroy", who, view(loaded.path));
  return factory;
}

// Splits NAME.KEY at the last dot: names of hooks may have dots.
std::pair<std::string, std::string> split_option(const std::string& word, const std::string& called,
                                                 const std::vector<std::string>& hooks) {
  const size_t dot = word.substr(0, word.find('=')).rfind('.');
  const std::string name = dot == std::string::npos ? "" : word.substr(0, dot);
  if (std::find(hooks.begin(), hooks.end(), name) == hooks.end())
    fail(WEFT_INVALID_ARGUMENT, "{} \"{}\" must begin with the name of a hook and a dot, as in {}.KEY{}",
         called, printable(word), fmt::join(hooks, ".KEY, "), did_you_mean(name, hooks));
  return {name, word.substr(dot + 1)};
}

// Returns the options of each hook, of which "hook_options" has words or, of programs, values.
std::map<std::string, json> options_of_hooks(const Settings& settings, const std::vector<std::string>& asked,
                                             const std::vector<std::string>& names) {
  const std::string called = settings.called("hook_options");
  std::map<std::string, json> options;
  for (const std::string& name : names) options[name] = json::object();
  if (!settings.given("hook_options")) return options;
  const json given = settings.all().at("hook_options");
  if (given.is_object()) {
    for (const auto& [word, value] : given.items()) {
      const auto [name, key] = split_option(word, called, names);
      options[name][key] = value;
    }
    return options;
  }
  std::map<std::string, std::vector<std::string>> words;
  for (const std::string& word : settings.words("hook_options")) {
    const auto [name, assignment] = split_option(word, called, names);
    words[name].push_back(assignment);
  }
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto found = words.find(names[i]); found != words.end())
      options[names[i]] = library_options(kKind, asked[i], who_is(asked[i]), found->second);
  return options;
}

std::vector<std::shared_ptr<HookInC>> open_all(const Settings& settings) {
  const std::vector<std::string> asked = settings.words("hook");
  std::vector<std::string> names;
  for (const std::string& name : asked) {
    const std::string plain = plugin_name(name);
    if (std::find(names.begin(), names.end(), plain) != names.end())
      fail(WEFT_INVALID_ARGUMENT, "{} {} is given twice", settings.called("hook"), printable(plain, 60));
    names.push_back(plain);
  }
  const std::map<std::string, json> options = options_of_hooks(settings, asked, names);
  std::vector<std::shared_ptr<HookInC>> hooks;
  for (size_t i = 0; i < names.size(); ++i)
    hooks.push_back(open_library_hook(asked[i], options.at(names[i])));
  return hooks;
}

}  // namespace

std::shared_ptr<HookInC> open_library_hook(const std::string& name, const json& options) {
  const std::string who = who_is(name), asked = plugin_name(name);
  const weft_loaded loaded = load_plugin(kKind, name);
  const Options complete(options_of_library(loaded), options, who);
  const weft_hook_factory& factory = factory_of(loaded, who);
  const weft_hook* made = nullptr;
  ErrorSink error;
  error.check(factory.create(&factory, borrow(asked), complete.data(), complete.size(), &made, error), who);
  if (made == nullptr) fail(WEFT_FAILED_PRECONDITION, "{} of {}: it made no hook", who, view(loaded.path));
  const std::shared_ptr<const weft_hook> owner(
      made, [&factory](const weft_hook* hook) { factory.destroy(&factory, hook); });
  try {
    auto hook = std::make_shared<HookInC>(*made, who, owner);
    if (hook->name() == asked) return hook;
    fail(WEFT_FAILED_PRECONDITION, "{} of {}: it made a hook with the name \"{}\"", who, view(loaded.path),
         printable(hook->name(), 80));
  } catch (const Error& wrong) {
    fail(WEFT_FAILED_PRECONDITION, "{}", wrong.what());
  }
}

std::shared_ptr<Hook> library_hook(const std::string& name, const std::string& options) {
  const json given = parse_json(options, fmt::format("the options of {}", who_is(name)));
  if (!given.is_object())
    fail(WEFT_INVALID_ARGUMENT, "the options of {} are {}, must be an object", who_is(name),
         printable(options, 60));
  return open_library_hook(name, given);
}

std::vector<std::shared_ptr<HookInC>> library_hooks(const Settings& settings, const World& world) {
  if (!settings.given("hook")) return {};
  std::vector<std::shared_ptr<HookInC>> hooks;
  on_every_rank(world.communicator(), [&] { hooks = open_all(settings); });
  require_same_hooks(hooks, world);
  return hooks;
}

void require_same_hooks(const std::vector<std::shared_ptr<HookInC>>& hooks, const World& world) {
  json facts = {{"number of hooks", hooks.size()}};
  for (size_t i = 0; i < hooks.size(); ++i)
    facts[fmt::format("hook {}", i + 1)] = {{"name", hooks[i]->name()}, {"moments", hooks[i]->moments()}};
  require_agreement(world.communicator(), facts);
}

}  // namespace weft

#include "base/option_groups.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/option_groups_text.hpp"
#include "base/text.hpp"

namespace weft {
namespace {

using nlohmann::json;

const json& group_named(const json& name, std::string_view source) {
  std::vector<std::string> names;
  for (const json& group : option_groups()) {
    if (group.at("name") == name) return group;
    names.push_back(group.at("name"));
  }
  const std::string text = name.is_string() ? name.get<std::string>() : name.dump();
  fail(WEFT_INVALID_ARGUMENT, "{}: \"groups\" names {}, which this Weft does not have{} Groups: {}", source,
       printable(text), did_you_mean(text, names), fmt::join(names, ", "));
}

void refuse_option_of_the_host(const json& option, std::string_view source) {
  if (!option.is_object()) return;  // OptionTable says so
  for (const json& group : option_groups())
    for (const json& other : group.at("options"))
      if (option.value("name", json()) == other.at("name"))
        fail(WEFT_INVALID_ARGUMENT,
             "{}: option {} is the host's: name its group \"{}\" in \"groups\" in place of declaring it",
             source, other.at("name").get<std::string>(), group.at("name").get<std::string>());
}

const json& member(const json& manifest, const char* key, const json& otherwise) {
  return manifest.contains(key) ? manifest.at(key) : otherwise;
}

}  // namespace

const json& option_groups() {
  static const json groups = parse_json(kOptionGroupsText, "sdk/options/groups.json");
  return groups;
}

json options_of_plugin(const json& manifest, std::string_view source) {
  static const json no_list = json::array(), no_object = json::object();
  const json& groups = member(manifest, "groups", no_list);
  json defaults = member(manifest, "defaults", no_object);
  const json& own = member(manifest, "options", no_list);
  if (!groups.is_array())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"groups\" is {}, must be a list of names", source, json_kind(groups));
  if (!defaults.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"defaults\" is {}, must be an object of options", source,
         json_kind(defaults));
  if (!own.is_array())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"options\" is {}, must be an array", source, json_kind(own));
  json all = json::array();
  for (const json& name : groups) {
    if (std::count(groups.begin(), groups.end(), name) > 1)
      fail(WEFT_INVALID_ARGUMENT, "{}: \"groups\" names {} twice", source, printable(name.dump()));
    const json& group = group_named(name, source);
    for (json option : group.at("options")) {
      for (const char* key : {"by", "since"})
        if (!option.contains(key)) option[key] = group.at(key);
      if (const auto changed = defaults.find(option.at("name")); changed != defaults.end()) {
        option["default"] = *changed;
        defaults.erase(changed);
      }
      all.push_back(std::move(option));
    }
  }
  if (!defaults.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"defaults\" has {}, which is no option of its groups", source,
         printable(defaults.begin().key()));
  for (const json& option : own) {
    refuse_option_of_the_host(option, source);
    all.push_back(option);
  }
  return all;
}

OptionTable option_table_of_plugin(const json& manifest, std::string_view source) {
  OptionTable table(options_of_plugin(manifest, source), source);
  for (const json& name : manifest.value("groups", json::array()))
    for (const json& absent : group_named(name, source).value("instead", json::array()))
      table.add_instead(absent.at("name"), absent.at("doc"));
  return table;
}

}  // namespace weft

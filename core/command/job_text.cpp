#include "command/job_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/job_options.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace weft::command {

namespace {

using nlohmann::json;

// Returns key=value words as an object. Words of JSON are values, so that lists stay lists.
json object_of(const std::vector<std::string>& words) {
  json object = json::object();
  for (const std::string& word : words) {
    const std::string text = word.substr(word.find('=') + 1);
    const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
    object[word.substr(0, word.find('='))] = value.is_structured() ? value : json(text);
  }
  return object;
}

// Returns the members of BoosterOptions that are not the defaults, by name.
json changed(const BoosterOptions& options, const std::string& strategy) {
  json values, defaults;
  BoosterOptions::each(options, [&](const char* name, const auto& value) { values[name] = value; });
  const BoosterOptions untouched;
  BoosterOptions::each(untouched, [&](const char* name, const auto& value) { defaults[name] = value; });
  json result = json::object();
  for (const auto& [name, value] : values.items())
    if (value != defaults[name]) result[name] = value;
  // With the version that the job asked for. The one that it used stands in training_state/.
  const size_t version = options.strategy.find('@');
  result["strategy"] = version == std::string::npos ? strategy : strategy + options.strategy.substr(version);
  result["device"] = options.device;
  const json of_strategy = parse_json(options.options, "options of the strategy");
  result.erase("options");
  if (!of_strategy.empty()) result["options"] = of_strategy;
  return result;
}

// Returns what was given or chosen, in the order of the declaration; of what was not, null.
std::vector<std::pair<const JobOption*, json>> values_of(const Settings& arguments,
                                                         const BoosterOptions& options,
                                                         const std::string& strategy, JobText which) {
  const json chosen = changed(options, strategy);
  std::vector<std::pair<const JobOption*, json>> values;
  for (const JobOption* option : job_options_of(arguments.user())) {
    const std::string& name = option->spec.name;
    // The options of the strategy have micro_batch_size, and those of the booster all of its file.
    if (name == "micro_batch_size" || name == "booster" || name == "dump_config" || option->by_command)
      continue;
    if (which == JobText::kRepeatable && !option->kept) continue;
    json value;
    if (option->group == "booster")
      value = chosen.value(name, json());
    else if (arguments.given(name))
      value = option->type == JobOption::Type::kAssignments ? object_of(arguments.words(name))
                                                            : arguments.all().at(name);
    values.emplace_back(option, std::move(value));
  }
  return values;
}

}  // namespace

std::string job_yaml(const Settings& arguments, const BoosterOptions& options, const std::string& strategy,
                     JobText which) {
  std::string text = fmt::format("# weft {} --config FILE reads this.\n", arguments.user());
  for (const auto& [option, value] : values_of(arguments, options, strategy, which)) {
    const json& otherwise = *option->spec.default_value;
    if (!value.is_null())
      text += fmt::format("{}: {}\n", option->spec.name, value.dump());
    else if (!otherwise.is_null() && otherwise != "")
      text += fmt::format("# {}: {}\n", option->spec.name, otherwise.dump());
  }
  return text;
}

std::string job_json(const Settings& arguments, const BoosterOptions& options, const std::string& strategy) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [option, value] : values_of(arguments, options, strategy, JobText::kWhole))
    if (!value.is_null()) object[option->spec.name] = value;
  return object.dump(2) + "\n";
}

}  // namespace weft::command

#include "base/option_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/json.hpp"
#include "base/text.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<const char*, uint32_t>, 5> kTypes = {{{"bool", WEFT_KIND_BOOL},
                                                                     {"int", WEFT_KIND_INT},
                                                                     {"float", WEFT_KIND_FLOAT},
                                                                     {"text", WEFT_KIND_TEXT},
                                                                     {"json", WEFT_KIND_JSON}}};

bool is_of_kind(const json& value, uint32_t kind) {
  switch (kind) {
    case WEFT_KIND_BOOL:
      return value.is_boolean();
    case WEFT_KIND_INT:
      return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
    case WEFT_KIND_FLOAT:
      return value.is_number() && std::isfinite(value.get<double>());
    case WEFT_KIND_TEXT:
      return value.is_string();
    default:
      return value.is_array() || value.is_object();
  }
}

std::string text_of(const json& entry, const char* key, std::string_view source, bool required) {
  if (!entry.contains(key)) {
    if (required) fail(WEFT_INVALID_ARGUMENT, "{}: an option has no \"{}\"", source, key);
    return "";
  }
  if (!entry.at(key).is_string()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" of an option is {}, must be a text", source, key,
         json_kind(entry.at(key)));
  }
  return entry.at(key).get<std::string>();
}

std::optional<double> limit_of(const json& entry, const char* key, const OptionSpec& spec,
                               std::string_view source) {
  if (!entry.contains(key)) return std::nullopt;
  if ((spec.kind != WEFT_KIND_INT && spec.kind != WEFT_KIND_FLOAT) || !entry.at(key).is_number()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" of option {} must be a number, and the option an int or float",
         source, key, spec.name);
  }
  return entry.at(key).get<double>();
}

OptionSpec parse_spec(const json& entry, std::string_view source) {
  if (!entry.is_object()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: an entry of \"options\" is {}, must be an object", source,
         json_kind(entry));
  }
  OptionSpec spec;
  spec.name = text_of(entry, "name", source, true);
  if (!is_plain_name(spec.name)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" cannot be the name of an option", source, printable(spec.name));
  }
  const std::string type = text_of(entry, "type", source, true);
  for (const auto& [name, kind] : kTypes) {
    if (type == name) spec.kind = kind;
  }
  if (spec.kind == WEFT_KIND_NONE) {
    fail(WEFT_INVALID_ARGUMENT, "{}: option {} is of type \"{}\", must be bool, int, float, text or json",
         source, spec.name, printable(type));
  }
  spec.doc = text_of(entry, "doc", source, false);
  spec.min = limit_of(entry, "min", spec, source);
  spec.max = limit_of(entry, "max", spec, source);
  if (entry.contains("infinity")) {
    if (spec.kind != WEFT_KIND_FLOAT || !entry.at("infinity").is_boolean())
      fail(WEFT_INVALID_ARGUMENT,
           "{}: \"infinity\" of option {} must be true or false, and the option a float", source, spec.name);
    spec.infinity = entry.at("infinity").get<bool>();
  }
  if (entry.contains("choices")) {
    if (!entry.at("choices").is_array() || entry.at("choices").empty()) {
      fail(WEFT_INVALID_ARGUMENT, "{}: \"choices\" of option {} must be a list of values", source, spec.name);
    }
    for (const json& choice : entry.at("choices")) {
      if (!is_of_kind(choice, spec.kind)) {
        fail(WEFT_INVALID_ARGUMENT, "{}: option {} is of type {}, but {} is among its choices", source,
             spec.name, type, printable(choice.dump()));
      }
      spec.choices.push_back(choice);
    }
  }
  spec.since = text_of(entry, "since", source, false);
  if (entry.contains("by")) spec.by = text_of(entry, "by", source, true);
  if (spec.by != "host" && spec.by != "strategy")
    fail(WEFT_INVALID_ARGUMENT, "{}: \"by\" of option {} is \"{}\", must be host or strategy", source,
         spec.name, printable(spec.by));
  if (entry.contains("needs"))
    spec.needs = OptionNeeds(entry.at("needs"), fmt::format("{}: option {}", source, spec.name));
  for (const auto& [key, value] : entry.items()) {
    const std::vector<std::string> known = {"name", "type",     "default", "choices", "min",  "max",
                                            "doc",  "infinity", "since",   "by",      "needs"};
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail(WEFT_INVALID_ARGUMENT, "{}: option {} has an unknown key \"{}\"{}", source, spec.name,
           printable(key), did_you_mean(key, known));
    }
  }
  if (entry.contains("default")) {
    spec.default_value = entry.at("default");
    check_value(spec, *spec.default_value, fmt::format("{}: the default", source));
  }
  return spec;
}

}  // namespace

OptionTable::OptionTable(const json& array, std::string_view source) {
  if (!array.is_array()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"options\" is {}, must be an array", source, json_kind(array));
  }
  for (const json& entry : array) {
    OptionSpec spec = parse_spec(entry, source);
    if (find(spec.name) != nullptr) {
      fail(WEFT_INVALID_ARGUMENT, "{}: option {} is listed twice", source, spec.name);
    }
    specs_.push_back(std::move(spec));
  }
  for (OptionSpec& spec : specs_) {
    const bool had_cases = !spec.needs.always();
    const std::string unknown =
        spec.needs.keep_known([this](const std::string& name) { return find(name) != nullptr; });
    if (had_cases && spec.needs.always())
      fail(WEFT_INVALID_ARGUMENT,
           "{}: option {} needs {}, which is no option here: declare it, or name its group", source,
           spec.name, unknown);
  }
}

const OptionSpec* OptionTable::find(std::string_view name) const {
  for (const OptionSpec& spec : specs_) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

const OptionSpec& OptionTable::at(std::string_view name, std::string_view who) const {
  if (const OptionSpec* spec = find(name)) return *spec;
  for (const auto& [absent, text] : instead_)
    if (absent == name) fail(WEFT_INVALID_ARGUMENT, "{}: {} is no option here: {}", who, absent, text);
  const std::string list =
      specs_.empty() ? "it has none" : fmt::format("Options: {}", fmt::join(names(), ", "));
  const std::string hint = did_you_mean(name, names());
  fail(WEFT_INVALID_ARGUMENT, "{}: no option is called \"{}\"{} {}", who, printable(name),
       hint.empty() ? ";" : hint, list);
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  for (const OptionSpec& spec : specs_) names.push_back(spec.name);
  return names;
}

std::string type_name(uint32_t kind) {
  for (const auto& [name, value] : kTypes) {
    if (value == kind) return name;
  }
  return "none";
}

std::string wanted(const OptionSpec& spec) {
  std::string text;
  switch (spec.kind) {
    case WEFT_KIND_BOOL:
      text = "true or false";
      break;
    case WEFT_KIND_INT:
      text = "an integer";
      break;
    case WEFT_KIND_FLOAT:
      text = spec.infinity ? "a number or inf" : "a number";
      break;
    case WEFT_KIND_TEXT:
      text = "a text";
      break;
    default:
      text = "a JSON array or object";
      break;
  }
  if (!spec.choices.empty()) {
    std::vector<std::string> choices;
    for (const json& choice : spec.choices)
      choices.push_back(choice.is_string() ? choice.get<std::string>() : choice.dump());
    text = fmt::format("one of {}", fmt::join(choices, ", "));
  }
  if (spec.min && spec.max) return fmt::format("{} from {} to {}", text, *spec.min, *spec.max);
  if (spec.min) return fmt::format("{}, at least {}", text, *spec.min);
  if (spec.max) return fmt::format("{}, at most {}", text, *spec.max);
  return text;
}

std::string refusal(const OptionSpec& spec, const json& value) {
  if (value.is_null() && spec.default_value && spec.default_value->is_null()) return "";
  if (spec.infinity && value == "inf") return "";
  bool good = is_of_kind(value, spec.kind);
  if (good && !spec.choices.empty()) {
    good = std::find(spec.choices.begin(), spec.choices.end(), value) != spec.choices.end();
  }
  if (good && (spec.min || spec.max)) {
    const double number = value.get<double>();
    good = (!spec.min || number >= *spec.min) && (!spec.max || number <= *spec.max);
  }
  if (good) return "";
  std::string hint;
  if (value.is_string() && !spec.choices.empty()) {
    std::vector<std::string> texts;
    for (const json& choice : spec.choices)
      texts.push_back(choice.is_string() ? choice.get<std::string>() : "");
    hint = did_you_mean(value.get<std::string>(), texts);
  }
  // JSON would print null for NaN and infinity.
  const bool is_finite = !value.is_number_float() || std::isfinite(value.get<double>());
  return fmt::format("is {}, must be {}{}",
                     is_finite ? printable(value.dump()) : fmt::format("{}", value.get<double>()),
                     wanted(spec), hint);
}

void check_value(const OptionSpec& spec, const json& value, std::string_view who) {
  if (const std::string wrong = refusal(spec, value); !wrong.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: {} {}", who, spec.name, wrong);
}

}  // namespace weft

#include "base/options.hpp"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.hpp"
#include "base/text.hpp"

namespace weft {
namespace {

using nlohmann::json;

OptionValue make_value(const OptionSpec& spec, const json& value) {
  OptionValue result;
  result.name = spec.name;
  if (value.is_null()) return result;
  result.kind = spec.kind;
  switch (spec.kind) {
    case WEFT_KIND_BOOL:
      result.integer = value.get<bool>() ? 1 : 0;
      break;
    case WEFT_KIND_INT:
      result.integer = value.get<int64_t>();
      break;
    case WEFT_KIND_FLOAT:
      result.real = value == "inf" ? std::numeric_limits<double>::infinity() : value.get<double>();
      break;
    case WEFT_KIND_TEXT:
      result.text = value.get<std::string>();
      break;
    default:
      result.text = value.dump();
      break;
  }
  return result;
}

template <typename Number>
bool parse_number(const std::string& text, Number& number) {
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

json parse_word(const OptionSpec& spec, const std::string& text, std::string_view who) {
  const bool can_be_unset = spec.default_value && spec.default_value->is_null();
  if (can_be_unset && (text == "none" || text == "null")) return nullptr;
  int64_t integer = 0;
  double real = 0;
  switch (spec.kind) {
    case WEFT_KIND_BOOL:
      if (text == "true" || text == "1" || text == "on" || text == "yes") return true;
      if (text == "false" || text == "0" || text == "off" || text == "no") return false;
      break;
    case WEFT_KIND_INT:
      if (parse_number(text, integer)) return integer;
      break;
    case WEFT_KIND_FLOAT:
      if (spec.infinity && text == "inf") return text;
      if (parse_number(text, real)) return real;
      break;
    case WEFT_KIND_TEXT:
      return text;
    default:
      return parse_json(text, fmt::format("{}: {}", who, spec.name));
  }
  fail(WEFT_INVALID_ARGUMENT, "{}: {} is \"{}\", must be {}", who, spec.name, printable(text), wanted(spec));
}

// Throws if an option is given that nothing reads: it must not be accepted and ignored.
void refuse_without_effect(const OptionTable& table, const json& given, const json& elsewhere,
                           std::string_view who) {
  const auto value_of = [&](const std::string& name) {
    if (given.contains(name)) return given.at(name);
    if (elsewhere.contains(name)) return elsewhere.at(name);
    return table.at(name, who).default_value.value_or(json());
  };
  for (const auto& [name, value] : given.items()) {
    const OptionNeeds& needs = table.at(name, who).needs;
    if (!needs.hold(value_of, [&](const std::string& other) { return given.contains(other); }))
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} is given but has no effect: it needs {}, and {}; leave {} out, or "
           "give what it needs",
           who, name, needs.text(), needs.found(value_of), name);
  }
}

}  // namespace

Options::Options(const OptionTable& table, const json& given, std::string_view who, const json& elsewhere) {
  if (!given.is_object() && !given.is_null()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: the options are {}, must be an object", who, json_kind(given));
  }
  for (const auto& [name, value] : given.items()) check_value(table.at(name, who), value, who);
  for (const OptionSpec& spec : table.specs()) {
    const bool is_given = given.is_object() && given.contains(spec.name);
    if (!is_given && !spec.default_value) {
      fail(WEFT_INVALID_ARGUMENT, "{}: option {} must be given: {}{}{}", who, spec.name, wanted(spec),
           spec.doc.empty() ? "" : "; ", spec.doc);
    }
    values_.push_back(make_value(spec, is_given ? given.at(spec.name) : *spec.default_value));
    const OptionValue& value = values_.back();
    const uint32_t flags = is_given ? WEFT_KV_GIVEN : 0;
    view_.push_back({borrow(value.name), value.kind, flags, value.integer, value.real, borrow(value.text)});
  }
  refuse_without_effect(table, given, elsewhere, who);
}

const OptionValue& Options::at(std::string_view name) const {
  for (const OptionValue& value : values_) {
    if (value.name == name) return value;
  }
  fail(WEFT_INTERNAL, "no option \"{}\" in this table", name);
}

json Options::to_json() const {
  json result = json::object();
  for (const OptionValue& value : values_) {
    json& entry = result[value.name];
    switch (value.kind) {
      case WEFT_KIND_BOOL:
        entry = value.integer != 0;
        break;
      case WEFT_KIND_INT:
        entry = value.integer;
        break;
      case WEFT_KIND_FLOAT:
        entry = std::isinf(value.real) ? json("inf") : json(value.real);
        break;
      case WEFT_KIND_TEXT:
        entry = value.text;
        break;
      case WEFT_KIND_JSON:
        entry = json::parse(value.text);
        break;
      default:
        break;
    }
  }
  return result;
}

json parse_assignments(const OptionTable& table, const std::vector<std::string>& words,
                       std::string_view who) {
  json result = json::object();
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is not of the form key=value", who, printable(word));
    }
    const OptionSpec& spec = table.at(std::string_view(word).substr(0, equals), who);
    if (result.contains(spec.name))
      fail(WEFT_INVALID_ARGUMENT, "{}: option {} is given twice", who, spec.name);
    const json value = parse_word(spec, word.substr(equals + 1), who);
    check_value(spec, value, who);
    result[spec.name] = value;
  }
  return result;
}

}  // namespace weft

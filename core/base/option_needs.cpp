#include "base/option_needs.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft {

using nlohmann::json;

std::string written(const json& value) {
  if (value.is_null()) return "not set";
  if (value.is_string() && !value.get<std::string>().empty()) return value.get<std::string>();
  return value.dump();
}

OptionNeeds::OptionNeeds(const json& value, std::string_view who) {
  if (!value.is_array()) {
    cases_.push_back(parse_case(value, who));
    return;
  }
  for (const json& one : value) cases_.push_back(parse_case(one, who));
  if (cases_.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: \"needs\" is an empty list, must name options", who);
}

OptionNeeds::Case OptionNeeds::parse_case(const json& value, std::string_view who) {
  if (!value.is_object() || value.empty())
    fail(WEFT_INVALID_ARGUMENT,
         R"({}: "needs" has {}, must be an object such as {{"precision": ["fp16"]}}, or a list of them)", who,
         printable(value.dump()));
  Case made;
  for (const auto& [option, wanted] : value.items()) {
    Condition condition;
    condition.option = option;
    if (wanted.is_array() && !wanted.empty()) {
      condition.values.assign(wanted.begin(), wanted.end());
    } else if (wanted.is_object() && wanted.size() == 1 && wanted.contains("above") &&
               wanted.at("above").is_number()) {
      condition.above = wanted.at("above").get<double>();
    } else if (wanted != "given") {
      fail(WEFT_INVALID_ARGUMENT,
           R"({}: "needs" asks {} to be {}, must be a list of values, {{"above": number}} or "given")", who,
           printable(option), printable(wanted.dump()));
    }
    made.push_back(std::move(condition));
  }
  return made;
}

bool OptionNeeds::Condition::holds(const json& value) const {
  if (above) return value == "inf" || (value.is_number() && value.get<double>() > *above);
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::string OptionNeeds::Condition::text(const SettingName& called) const {
  const std::string name = called(option);
  const bool is_switch = name != option && values == std::vector<json>{true};  // a flag without a value
  if (must_be_given() || is_switch) return name;
  if (above) return fmt::format("{} above {}", name, *above);
  std::vector<std::string> parts;
  for (const json& value : values) parts.push_back(written(value));
  return fmt::format("{} {}", name, alternatives(parts));
}

bool OptionNeeds::hold(const std::function<json(const std::string&)>& value_of,
                       const std::function<bool(const std::string&)>& is_given) const {
  return always() || std::any_of(cases_.begin(), cases_.end(), [&](const Case& one) {
           return std::all_of(one.begin(), one.end(), [&](const Condition& condition) {
             return condition.must_be_given() ? is_given && is_given(condition.option)
                                              : condition.holds(value_of(condition.option));
           });
         });
}

std::string OptionNeeds::text(const SettingName& called) const {
  std::vector<std::string> texts;
  for (const Case& one : cases_) {
    std::vector<std::string> parts;
    for (const Condition& condition : one) parts.push_back(condition.text(called));
    texts.push_back(fmt::format("{}", fmt::join(parts, " and ")));
  }
  return fmt::format("{}", fmt::join(texts, ", or "));
}

std::string OptionNeeds::found(const std::function<json(const std::string&)>& value_of) const {
  std::vector<std::string> parts;
  for (const Case& one : cases_)
    for (const Condition& condition : one) {
      const std::string part = fmt::format("{} is {}", condition.option, written(value_of(condition.option)));
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    }
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string OptionNeeds::keep_known(const std::function<bool(const std::string&)>& is_known) {
  std::string unknown;
  std::erase_if(cases_, [&](const Case& one) {
    const auto found = std::find_if(one.begin(), one.end(),
                                    [&](const Condition& condition) { return !is_known(condition.option); });
    if (found == one.end()) return false;
    if (unknown.empty()) unknown = found->option;
    return true;
  });
  return unknown;
}

}  // namespace weft

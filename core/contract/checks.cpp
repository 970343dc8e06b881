#include "contract/checks.hpp"

#include <algorithm>

namespace weft::contract {

Check& Findings::check(const std::string& name) {
  const auto found =
      std::find_if(checks_.begin(), checks_.end(), [&](const Check& known) { return known.name == name; });
  return found != checks_.end() ? *found : checks_.emplace_back(Check{name, true, ""});
}

void Findings::look(const std::string& name, const std::string& problem) {
  add({name, problem.empty(), problem});
}

void Findings::add(Check added) {
  Check& known = check(added.name);
  if (!known.passed || (added.passed && !known.text.empty())) return;
  known = std::move(added);
}

bool Findings::failed() const {
  return std::any_of(checks_.begin(), checks_.end(), [](const Check& check) { return !check.passed; });
}

nlohmann::json Findings::to_json() const {
  nlohmann::json all = nlohmann::json::array();
  for (const Check& check : checks_) all.push_back({check.name, check.passed, check.text});
  return all;
}

Findings Findings::parse(const nlohmann::json& json) {
  Findings findings;
  for (const nlohmann::json& check : json)
    findings.add({check.at(0).get<std::string>(), check.at(1).get<bool>(), check.at(2).get<std::string>()});
  return findings;
}

}  // namespace weft::contract

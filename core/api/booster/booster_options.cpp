#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/files.hpp"
#include "base/job_options.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "base/text.hpp"
#include "booster/option_checks.hpp"

namespace weft {

namespace {

using nlohmann::json;

const OptionTable& booster_table() {
  static const OptionTable table = [] {
    OptionTable members;
    for (const JobOption& option : job_options())
      if (option.group == "booster" && members.find(option.spec.name) == nullptr) members.add(option.spec);
    return members;
  }();
  return table;
}

BoosterOptions from_json(json given, const std::string& who) {
  std::string of_strategy = "{}", of_objective = "{}";
  if (given.is_object()) {
    json& mixed = given["mixed_precision"];
    if (mixed.is_object()) mixed = mixed.dump();
    if (mixed.is_null()) given.erase("mixed_precision");
    if (given.contains("options") && given["options"].is_object()) of_strategy = given["options"].dump();
    if (given.contains("objective_options") && given["objective_options"].is_object())
      of_objective = given["objective_options"].dump();
  }
  const Options values(booster_table(), given, who);
  BoosterOptions options;
  BoosterOptions::each(options, [&](const std::string& name, auto& member) {
    const OptionValue& value = values.at(name);
    using Member = std::remove_reference_t<decltype(member)>;
    if (value.kind == WEFT_KIND_NONE) return;
    if constexpr (std::is_same_v<Member, std::string>)
      member = value.text;
    else if constexpr (std::is_same_v<Member, double>)
      member = value.real;
    else
      member = static_cast<Member>(value.integer);
  });
  options.options = of_strategy;
  options.objective_options = of_objective;
  return options;
}

}  // namespace

void check_values(const BoosterOptions& options, const SettingName& called) {
  BoosterOptions::each(options, [&](const std::string& name, const auto& member) {
    if (name == "options" || name == "objective_options") return;
    if (const std::string wrong = refusal(booster_table().at(name, "booster"), member); !wrong.empty())
      fail(WEFT_INVALID_ARGUMENT, "{} {}", called(name), wrong);
  });
}

void check_max_grad_norm(double max_norm, const std::string& called) {
  if (!(max_norm >= 0) || std::isinf(max_norm))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be a positive finite number, or 0 for no clipping", called,
         max_norm);
}

BoosterOptions BoosterOptions::parse(const std::string& json) {
  return from_json(parse_json(json, "booster options"), "booster");
}

BoosterOptions BoosterOptions::load(const std::string& path) {
  return from_json(parse_json(read_file(path, 1 << 20), path), path);
}

}  // namespace weft

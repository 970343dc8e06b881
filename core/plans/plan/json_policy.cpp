#include "plan/json_policy.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/builder.hpp"

namespace weft::plan {
namespace {

using nlohmann::json;
using weft::borrow;

// A size or flag of the axes that a policy can read. The last ones correspond to macros of weft/policy.h.
struct Field {
  const char* name;
  std::function<json(const weft_parallel&)> of;
};

const Field& field_at(const std::string& name) {
  static const std::vector<Field> kFields = {
      {"tensor_size", [](const weft_parallel& p) { return json(p.tensor_size); }},
      {"sequence_size", [](const weft_parallel& p) { return json(p.sequence_size); }},
      {"pipeline_size", [](const weft_parallel& p) { return json(p.pipeline_size); }},
      {"data_size", [](const weft_parallel& p) { return json(p.data_size); }},
      {"parallel_output", [](const weft_parallel& p) { return json(p.parallel_output != 0); }},
      {"split_over_tensor_axis", [](const weft_parallel& p) { return json(p.splits_over_tensor_axis != 0); }},
      {"split_over_sequence_axis",
       [](const weft_parallel& p) { return json(p.splits_over_sequence_axis != 0); }},
      {"head_ranks", [](const weft_parallel& p) { return json(p.head_ranks); }}};
  std::vector<std::string> names;
  for (const Field& field : kFields) {
    if (name == field.name) return field;
    names.push_back(field.name);
  }
  fail(WEFT_INVALID_ARGUMENT, "\"{}\" is no size or flag of the axes{}; there are: {}", printable(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

// The type of the value of a key.
enum class Form { kText, kPair, kInteger, kConfig, kParallel };

struct Key {
  std::string name;
  Form form;
};

// The keys of each kind of entry. The first key selects the kind, and all are required.
const std::vector<std::vector<Key>> kVerbs = {
    {{"on", Form::kText}, {"operation", Form::kText}},
    {{"divide", Form::kText}, {"attribute", Form::kText}, {"by", Form::kInteger}},
    {{"tie", Form::kPair}},
    {{"require_divides", Form::kText}, {"divisor", Form::kInteger}},
    {{"reject", Form::kText}},
};

// The optional keys of every entry.
const std::vector<Key> kConditions = {{"if_module", Form::kText},       {"unless_module", Form::kText},
                                      {"if_config", Form::kConfig},     {"unless_config", Form::kConfig},
                                      {"if_parallel", Form::kParallel}, {"unless_parallel", Form::kParallel}};

const std::vector<Key>& verb_of(const json& entry) {
  std::vector<std::string> names, found;
  const std::vector<Key>* verb = nullptr;
  for (const std::vector<Key>& keys : kVerbs) {
    names.push_back(keys.front().name);
    if (!entry.contains(names.back())) continue;
    verb = &keys;
    found.push_back(names.back());
  }
  if (found.size() == 1) return *verb;
  if (!found.empty())
    fail(WEFT_INVALID_ARGUMENT, "it has {}; an entry has one of them", fmt::join(found, " and "));
  std::string meant;
  for (const auto& [key, value] : entry.items())
    if (meant.empty()) meant = did_you_mean(key, names);
  fail(WEFT_INVALID_ARGUMENT, "it has none of {}{}", fmt::join(names, ", "), meant);
}

const AttributeRule* rule_of(const json& entry, const std::string& attribute) {
  const Operation* operation = find_operation(entry.at("operation").get_ref<const std::string&>());
  if (operation == nullptr) return nullptr;
  const auto found = std::find_if(operation->attributes.begin(), operation->attributes.end(),
                                  [&](const AttributeRule& rule) { return rule.standard.key == attribute; });
  return found == operation->attributes.end() ? nullptr : &*found;
}

// Returns true if a text stands for itself because the attribute is a text. Otherwise it names a size or a
// flag. The plan reports unknown operations and attributes.
bool is_literal(const json& entry, const std::string& attribute) {
  const AttributeRule* rule = rule_of(entry, attribute);
  return rule == nullptr || rule->standard.kind == WEFT_KIND_TEXT;
}

bool is_scalar(const json& value) {
  return value.is_boolean() || value.is_number() || value.is_string();
}

// Throws unless the value is a number, a flag, the name of a field, or {"config": KEY, "otherwise": one of
// these}.
void check_value(const std::string& key, const json& value, bool is_text) {
  if (value.is_string() && !is_text) field_at(value.get<std::string>());
  if (is_scalar(value)) return;
  if (!value.is_object())
    fail(WEFT_INVALID_ARGUMENT,
         "\"{}\" is {}, must be a number, a flag, a text or {{\"config\": KEY, \"otherwise\": VALUE}}", key,
         json_kind(value));
  if (value.size() != 2 || !value.contains("config") || !value.contains("otherwise") ||
      !value["config"].is_string())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be {{\"config\": KEY, \"otherwise\": VALUE}}", key,
         printable(value.dump()));
  check_value(key, value["otherwise"], is_text);
}

// Checks the object of an "if_..." or "unless_..." key.
void check_facts(const Key& key, const json& value) {
  if (!value.is_object() || value.empty())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be an object of keys and the values they must have",
         key.name, value.is_object() ? "empty" : json_kind(value));
  for (const auto& [name, wanted] : value.items()) {
    if (!is_scalar(wanted))
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" of \"{}\" is {}, must be a number, a flag or a text",
           printable(name), key.name, json_kind(wanted));
    if (key.form != Form::kParallel) continue;
    const weft_parallel none = {};
    const json value_of_none = field_at(name).of(none);
    if (value_of_none.is_boolean() == wanted.is_boolean() && !wanted.is_number_float() && !wanted.is_string())
      continue;
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" of \"{}\" is {}, must be {}", name, key.name, json_kind(wanted),
         value_of_none.is_boolean() ? "true or false" : "an integer");
  }
}

void check_form(const Key& key, const json& value) {
  const auto is_name = [](const json& text) { return text.is_string() && text != ""; };
  switch (key.form) {
    case Form::kText:
      if (is_name(value)) return;
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be a text", key.name,
           value == "" ? "empty" : json_kind(value));
    case Form::kPair:
      if (value.is_array() && value.size() == 2 && is_name(value[0]) && is_name(value[1])) return;
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be [\"one parameter\", \"the other\"]", key.name,
           printable(value.dump()));
    case Form::kInteger:
      if (value.is_boolean() || value.is_number_float())
        fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be an integer", key.name, json_kind(value));
      return check_value(key.name, value, false);
    default:
      return check_facts(key, value);
  }
}

void check_entry(const json& entry) {
  if (!entry.is_object()) fail(WEFT_INVALID_ARGUMENT, "it is {}, must be an object", json_kind(entry));
  std::vector<Key> keys = verb_of(entry);
  const bool has_attributes = keys.front().name == "on";
  std::vector<std::string> required, names;
  for (const Key& key : keys) required.push_back(key.name);
  keys.insert(keys.end(), kConditions.begin(), kConditions.end());
  for (const Key& key : keys) names.push_back(key.name);
  const auto find_key = [&](const std::string& name) {
    return std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  };
  // A misspelled condition is reported as an unknown key, with the nearest one, instead of as an unknown
  // attribute.
  const auto is_attribute = [&](const std::string& name) {
    return has_attributes && !name.starts_with("if_") && !name.starts_with("unless_");
  };
  for (const auto& [name, value] : entry.items()) {
    const auto key = find_key(name);
    if (key != keys.end())
      check_form(*key, value);
    else if (!is_attribute(name))
      fail(WEFT_INVALID_ARGUMENT, "the key \"{}\" is unknown{}; there are: {}", printable(name),
           did_you_mean(name, names), fmt::join(names, ", "));
  }
  for (const std::string& name : required) {
    if (entry.contains(name)) continue;
    std::string meant;
    for (const auto& [key, value] : entry.items())
      if (meant.empty() && std::find(names.begin(), names.end(), key) == names.end())
        meant = nearest(key, {name}) ? fmt::format("; is \"{}\" meant for it?", printable(key)) : "";
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is missing{}", name, meant);
  }
  if (!has_attributes) return;
  for (const auto& [name, value] : entry.items())
    if (std::find(names.begin(), names.end(), name) == names.end())
      check_value(name, value, is_literal(entry, name));
}

// The model and the sizes, as the entries of a policy read them.
struct Facts {
  const weft_model_view& model;
  const weft_parallel& parallel;

  // Returns a value of the configuration, null if it is absent.
  json config(const std::string& key) const {
    weft_kv value{};
    if (!model.config(model.model, borrow(key), &value)) return nullptr;
    if (value.kind == WEFT_KIND_BOOL) return value.integer != 0;
    if (value.kind == WEFT_KIND_INT) return value.integer;
    if (value.kind == WEFT_KIND_FLOAT) return value.real;
    return std::string(view(value.text));
  }

  bool has_module(const std::string& path) const {
    weft_node node = {
        .struct_size = sizeof(weft_node), .path = {}, .kind = {}, .num_params = 0, .reserved = 0};
    for (uint64_t i = 0; model.node(model.model, i, &node); ++i)
      if (view(node.path) == path) return true;
    return false;
  }

  json value(const json& given, bool is_text) const {
    if (given.is_object()) {
      json found = config(given["config"]);
      return found.is_null() ? value(given["otherwise"], is_text) : found;
    }
    return given.is_string() && !is_text ? field_at(given.get<std::string>()).of(parallel) : given;
  }

  int64_t integer(const json& entry, const char* key) const {
    const json found = value(entry[key], false);
    if (!found.is_number_integer())
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" comes to {}, must be an integer", key, printable(found.dump()));
    return found.get<int64_t>();
  }

  bool holds(const std::string& subject, const json& wanted) const {
    if (subject == "module") return has_module(wanted);
    for (const auto& [key, value] : wanted.items())
      if (value != (subject == "config" ? config(key) : field_at(key).of(parallel))) return false;
    return true;
  }

  bool applies(const json& entry) const {
    return std::all_of(kConditions.begin(), kConditions.end(), [&](const Key& key) {
      if (!entry.contains(key.name)) return true;
      const bool unless = key.name.starts_with("unless_");
      return holds(key.name.substr(unless ? 7 : 3), entry[key.name]) != unless;
    });
  }
};

weft_str text(const json& value) {
  return borrow(value.get_ref<const std::string&>());
}

weft_status replace(const json& entry, const Facts& facts, const weft_plan_builder& plan, weft_error* error) {
  std::vector<Attribute> attributes;
  for (const auto& [name, value] : entry.items()) {
    const bool is_condition = name.starts_with("if_") || name.starts_with("unless_");
    if (is_condition || name == "on" || name == "operation") continue;
    attributes.push_back(to_attribute(name, facts.value(value, is_literal(entry, name))));
  }
  std::vector<weft_kv> views;
  for (const Attribute& attribute : attributes) views.push_back(borrow(attribute));
  return plan.replace(plan.plan, text(entry["on"]), text(entry["operation"]), views.data(), views.size(),
                      error);
}

weft_status run(const json& entry, const Facts& facts, const weft_plan_builder& plan, weft_error* error) {
  const std::string& verb = verb_of(entry).front().name;
  if (verb == "on") return replace(entry, facts, plan, error);
  if (verb == "divide")
    return plan.divide(plan.plan, text(entry["divide"]), text(entry["attribute"]), facts.integer(entry, "by"),
                       error);
  if (verb == "tie") return plan.tie(plan.plan, text(entry["tie"][0]), text(entry["tie"][1]), error);
  if (verb == "require_divides")
    return plan.require_divides(plan.plan, text(entry["require_divides"]), facts.integer(entry, "divisor"),
                                error);
  return plan.reject(plan.plan, text(entry["reject"]), error);
}

std::string place_of(const std::string& source, size_t index) {
  return fmt::format("{}, entry {}", source, index + 1);
}

// Parses the policy. Throws INVALID_ARGUMENT with all errors.
json checked(std::string_view text, const std::string& source) {
  json policy = parse_json(text, source);
  if (!policy.is_object())
    fail(WEFT_INVALID_ARGUMENT, "{}: it is {}, must be an object", source, json_kind(policy));
  const std::vector<std::string> keys = {"name", "entries"};
  for (const auto& [key, value] : policy.items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      fail(WEFT_INVALID_ARGUMENT, "{}: the key \"{}\" is unknown{}; there are: {}", source, printable(key),
           did_you_mean(key, keys), fmt::join(keys, ", "));
  if (!policy.contains("name") || !policy["name"].is_string() ||
      !is_plain_name(policy["name"].get<std::string>()))
    fail(WEFT_INVALID_ARGUMENT, "{}: \"name\" must be a plain name: letters, digits and _ - . +", source);
  if (!policy.contains("entries") || !policy["entries"].is_array())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"entries\" must be an array", source);
  std::vector<std::string> problems;
  for (size_t i = 0; i < policy["entries"].size(); ++i) {
    try {
      check_entry(policy["entries"][i]);
    } catch (const Error& problem) {
      problems.push_back(placed(place_of(source, i), problem.what()));
    }
  }
  if (!problems.empty()) fail(WEFT_INVALID_ARGUMENT, "{}", fmt::join(problems, "\n"));
  return policy;
}

}  // namespace

bool is_json_policy(std::string_view custom_policy) {
  return custom_policy.find('/') != std::string_view::npos || custom_policy.ends_with(".json");
}

Policy parse_json_policy(std::string_view text, const std::string& source) {
  const auto policy = std::make_shared<const json>(checked(text, source));
  const auto build = [policy, source](weft_str, const weft_model_view* model, const weft_parallel* parallel,
                                      const weft_plan_builder* plan, weft_error* error) {
    weft_status status = WEFT_OK;
    const weft_status guard = guarded(error, [&] {
      const Facts facts = {*model, *parallel};
      const json& entries = policy->at("entries");
      for (size_t i = 0; i < entries.size() && status == WEFT_OK; ++i) {
        const std::string place = place_of(source, i);
        set_place(plan->plan, place);
        try {
          if (facts.applies(entries[i])) status = run(entries[i], facts, *plan, error);
        } catch (const Error& problem) {
          fail(problem.status(), "{}", placed(place, problem.what()));
        }
      }
    });
    return guard != WEFT_OK ? guard : status;
  };
  return {policy->at("name").get<std::string>(), build};
}

}  // namespace weft::plan

#include "base/job_options.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/job_options_text.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace weft {
namespace {

using nlohmann::json;
using Type = JobOption::Type;
using File = JobOption::File;

struct TypeName {
  const char* name;
  Type type;
  const char* kind;  // in the table of options
};

constexpr std::array<TypeName, 9> kTypes = {{{"bool", Type::kBool, "bool"},
                                             {"int", Type::kInt, "int"},
                                             {"float", Type::kFloat, "float"},
                                             {"text", Type::kText, "text"},
                                             {"path", Type::kPath, "text"},
                                             {"words", Type::kWords, "json"},
                                             {"assignments", Type::kAssignments, "json"},
                                             {"ints", Type::kInts, "json"},
                                             {"floats", Type::kFloats, "json"}}};
constexpr std::array<std::pair<const char*, File>, 6> kFiles = {{{"reads", File::kReads},
                                                                 {"model", File::kModel},
                                                                 {"data", File::kData},
                                                                 {"writes", File::kWrites},
                                                                 {"saves", File::kSaves},
                                                                 {"resumes", File::kResumes}}};

JobOption parse(const json& group, const json& row) {
  JobOption option;
  const std::string type = row.at("type");
  const auto named =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.name == type; });
  if (named == kTypes.end()) fail(WEFT_INTERNAL, "sdk/options/job.json: type \"{}\" is unknown", type);
  option.type = named->type;
  json table = {{"name", row.at("name")},
                {"type", named->kind},
                {"default", row.value("default", json())},
                {"since", row.value("since", group.at("since"))},
                {"doc", row.at("doc")}};
  for (const char* key : {"choices", "min", "max"})
    if (row.contains(key)) table[key] = row.at(key);
  option.spec = OptionTable(json::array({table}), "sdk/options/job.json").specs().front();
  if (row.contains("needs")) option.spec.needs = OptionNeeds(row.at("needs"), option.spec.name);
  if (row.contains("file"))
    for (const auto& [name, file] : kFiles)
      if (row.at("file") == name) option.file = file;
  option.group = group.at("name");
  option.title = group.at("title");
  option.users = row.at("for");
  option.flag = row.value("flag", flag_name(option.spec.name));
  option.flag_default = row.value("flag_default", "");
  const auto texts = [&](const char* key) { return row.value(key, std::vector<std::string>()); };
  option.synonyms = texts("synonyms");
  option.data = texts("data");
  option.excludes = texts("excludes");
  option.required = row.value("required", false);
  option.may_be_empty = row.value("may_be_empty", false);
  option.common = row.value("common", false);
  option.by_command = row.value("by", "engine") == "command";
  option.each_rank = row.value("each_rank", false);
  option.kept = row.value("kept", true);
  return option;
}

std::vector<JobOption> parse_all() {
  std::vector<JobOption> options;
  const json groups = parse_json(kJobOptionsText, "sdk/options/job.json");
  for (const json& group : groups)
    for (const json& row : group.at("options")) options.push_back(parse(group, row));
  return options;
}

// Throws if `name` is given where it has no effect.
void check_effect(const JobOption& option, std::string_view user, const json& given,
                  const SettingName& called) {
  const std::string name = called(option.spec.name);
  for (const std::string& other : option.excludes)
    if (given.contains(other))
      fail(WEFT_INVALID_ARGUMENT, "{} and {} exclude each other; give one", name, called(other));
  const auto value_of = [&](const std::string& other) {
    if (given.contains(other)) return given.at(other);
    const JobOption* const declared = find_job_option(user, other);
    return declared ? declared->spec.default_value.value_or(json()) : json();
  };
  const auto is_given = [&](const std::string& other) { return given.contains(other); };
  if (!option.spec.needs.hold(value_of, is_given))
    fail(WEFT_INVALID_ARGUMENT, "{0} needs {1}: give both, or leave {0} out", name,
         option.spec.needs.text(called));
}

}  // namespace

bool JobOption::is_for(std::string_view user) const {
  return std::find(users.begin(), users.end(), user) != users.end();
}

std::string JobOption::name_of_flag() const {
  return flag.substr(0, flag.find(','));
}

std::string JobOption::help() const {
  const auto says = [&](const json& choice) {
    return spec.doc.find(choice.get<std::string>()) != spec.doc.npos;
  };
  const bool says_choices = std::all_of(spec.choices.begin(), spec.choices.end(), says);
  const std::string allowed = says_choices ? "" : ": " + wanted(spec);
  std::string otherwise = flag_default;
  if (const json& value = *spec.default_value; otherwise.empty() && !is_list() && type != Type::kBool)
    if (!value.is_null() && value != "")
      otherwise = value.is_string() ? value.get<std::string>() : value.dump();
  return spec.doc + allowed + (otherwise.empty() ? "" : "; default " + otherwise);
}

const std::vector<JobOption>& job_options() {
  static const std::vector<JobOption> options = parse_all();
  return options;
}

std::vector<const JobOption*> job_options_of(std::string_view user) {
  std::vector<const JobOption*> options;
  for (const JobOption& option : job_options())
    if (option.is_for(user)) options.push_back(&option);
  return options;
}

const JobOption* find_job_option(std::string_view user, std::string_view name) {
  for (const JobOption& option : job_options())
    if (option.spec.name == name && option.is_for(user)) return &option;
  return nullptr;
}

OptionTable option_table_of(std::string_view user) {
  OptionTable table;
  for (const JobOption* option : job_options_of(user)) table.add(option->spec);
  return table;
}

void check_settings(std::string_view user, const json& given, const SettingName& called) {
  for (const auto& [name, value] : given.items()) {
    const JobOption* const option = find_job_option(user, name);
    if (option == nullptr) fail(WEFT_INTERNAL, "{} has no option \"{}\"", user, name);
    if (const std::string wrong = refusal(option->spec, value); !wrong.empty())
      fail(WEFT_INVALID_ARGUMENT, "{} {}", called(name), wrong);
    if (option->type == Type::kPath && value == "")
      fail(WEFT_INVALID_ARGUMENT, "{} is empty: give a path, or leave it out", called(name));
  }
  for (const auto& [name, value] : given.items())
    check_effect(*find_job_option(user, name), user, given, called);
}

}  // namespace weft

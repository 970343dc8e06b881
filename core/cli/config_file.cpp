#include "config_file.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/job_options.hpp"
#include "base/text.hpp"
#include "config_tree.hpp"
#include "option_words.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

using nlohmann::json;
using Kind = ConfigNode::Kind;

// Returns a value of a strategy's option as it stands behind -o: a list or map as JSON, whose plain words are
// numbers, true, false and null where they are written so.
json json_of(const ConfigNode& node) {
  if (node.kind == Kind::kNull) return nullptr;
  if (node.kind == Kind::kQuoted) return node.text;
  if (node.kind == Kind::kPlain) {
    const json value = json::parse(node.text, nullptr, /*allow_exceptions=*/false);
    return value.is_primitive() && !value.is_discarded() ? value : json(node.text);
  }
  json made = node.kind == Kind::kList ? json::array() : json::object();
  for (const ConfigNode& item : node.items)
    if (node.kind == Kind::kList)
      made.push_back(json_of(item));
    else
      made[item.name] = json_of(item);
  return made;
}

// Returns the words of a list of them, or one word by itself.
std::vector<std::string> words_of(const ConfigNode& node, const std::string& who) {
  if (node.is_scalar()) return {node.text};
  std::vector<std::string> words;
  for (const ConfigNode& item : node.items) {
    if (node.kind != Kind::kList || !item.is_scalar())
      throw UsageError(fmt::format("{}: must be a value, or a list of values", who));
    words.push_back(item.text);
  }
  return words;
}

std::vector<std::string> assignments_of(const ConfigNode& node, const std::string& who) {
  if (node.kind != Kind::kMap) throw UsageError(fmt::format("{}: must be a map: {{key: value}}", who));
  std::vector<std::string> words;
  for (const ConfigNode& item : node.items)
    words.push_back(item.name + "=" + (item.is_scalar() ? item.text : json_of(item).dump()));
  return words;
}

json value_of(const JobOption& option, const ConfigNode& node, const std::string& who) {
  if (option.type == JobOption::Type::kAssignments) return assignments_of(node, who);
  std::vector<std::string> words = words_of(node, who);
  if (option.type == JobOption::Type::kWords) return words;
  if (option.is_list()) {
    const bool is_list = node.kind == Kind::kList;
    return read_option(option, is_list ? fmt::format("{}", fmt::join(words, ",")) : words.front(), who,
                       /*may_be_empty=*/option.may_be_empty);
  }
  if (!node.is_scalar()) throw UsageError(fmt::format("{}: must be one value", who));
  const json value = read_option(option, node.text, who);
  if (const std::string wrong = refusal(option.spec, value); !wrong.empty())
    throw UsageError(fmt::format("{} {}", who, wrong));
  return value;
}

}  // namespace

json read_config(const std::string& verb, const std::string& text, const std::string& path) {
  const ConfigNode root = parse_config(text, path);
  if (root.kind != Kind::kMap)
    throw UsageError(
        fmt::format("{}: must have options with values, such as batch_size: 16", printable(path)));
  std::vector<std::string> names;
  for (const JobOption* option : job_options_of(verb)) names.push_back(option->spec.name);
  json given = json::object();
  for (const ConfigNode& node : root.items) {
    const std::string who = fmt::format("{}:{}: {}", printable(path), node.line, printable(node.name));
    const JobOption* const option = find_job_option(verb, node.name);
    if (option == nullptr || node.name == "config" || node.name == "booster")
      throw UsageError(fmt::format("{} is no option of {} in a file{}\n`weft {} --help-all` lists them", who,
                                   verb, did_you_mean(node.name, names), verb));
    if (node.kind != Kind::kNull) given[node.name] = value_of(*option, node, who);
  }
  return given;
}

}  // namespace weft::cli

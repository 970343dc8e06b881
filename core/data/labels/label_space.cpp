#include "labels/label_space.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "labels/span_tags.hpp"

namespace weft::data {

using Kind = RowLabel::Kind;

namespace {

constexpr std::pair<const char*, Problem> kProblems[] = {
    {"single_label_classification", Problem::kSingleLabel},
    {"multi_label_classification", Problem::kMultiLabel},
    {"regression", Problem::kRegression},
};

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

[[noreturn]] void refuse(const LabelledRow& row, const LabelledRows& rows, const std::string& text) {
  fail(WEFT_INVALID_ARGUMENT, "{}: {}", rows.text_of(row.place), text);
}

std::string shown(const RowLabel& label) {
  const std::string values = printable(fmt::format("{}", fmt::join(label.values, ", ")), 60);
  return label.is_list ? fmt::format("[{}]", values) : fmt::format("\"{}\"", values);
}

// Returns the first row with a label of this kind, or null.
const LabelledRow* first_of(const LabelledRows& rows, Kind kind) {
  const auto found = std::find_if(rows.rows.begin(), rows.rows.end(),
                                  [&](const LabelledRow& row) { return row.label.kind == kind; });
  return found == rows.rows.end() ? nullptr : &*found;
}

Problem problem_of(const LabelledRows& rows) {
  if (std::any_of(rows.rows.begin(), rows.rows.end(),
                  [](const LabelledRow& row) { return row.label.is_list; }))
    return Problem::kMultiLabel;
  return first_of(rows, Kind::kReal) != nullptr ? Problem::kRegression : Problem::kSingleLabel;
}

// Returns the names of classes in their order.
std::vector<std::string> ordered(const std::set<std::string>& found, bool integers) {
  std::vector<std::string> names(found.begin(), found.end());
  if (integers)
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return *number_in<int64_t>(a) < *number_in<int64_t>(b);
    });
  return names;
}

}  // namespace

Problem problem_named(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, problem] : kProblems) {
    if (known == name) return problem;
    names.emplace_back(known);
  }
  fail(WEFT_INVALID_ARGUMENT, "the problem \"{}\" is unknown, must be {}", name, alternatives(names));
}

const char* name_of(Problem problem) {
  return std::find_if(std::begin(kProblems), std::end(kProblems),
                      [&](const auto& known) { return known.second == problem; })
      ->first;
}

std::vector<int64_t> LabelSpace::classes_of(const LabelledRow& row, const LabelledRows& rows) const {
  if (ids_.empty())
    for (const std::string& name : names) ids_.emplace(name, static_cast<int64_t>(ids_.size()));
  if (problem == Problem::kSingleLabel && row.label.is_list)
    refuse(row, rows, fmt::format("its label is the list {}, but each text has one label", shown(row.label)));
  if (row.label.kind == Kind::kReal)
    refuse(row, rows,
           fmt::format("its label {} is no class, but a number, as those of a regression", shown(row.label)));
  std::vector<int64_t> classes;
  for (const std::string& value : row.label.values) {
    const auto found = ids_.find(value);
    const std::optional<int64_t> id =
        integers_are_ids && found == ids_.end() ? number_in<int64_t>(value) : std::nullopt;
    const bool is_id = id && *id >= 0 && *id < static_cast<int64_t>(names.size());
    if (found == ids_.end() && !is_id)
      refuse(row, rows,
             fmt::format(
                 "its label is the class \"{}\", which the model does not have{}; its {} classes are: {}",
                 printable(value, 60), did_you_mean(value, names), names.size(),
                 printable(fmt::format("{}", fmt::join(names, ", ")))));
    classes.push_back(is_id ? *id : found->second);
  }
  return classes;
}

double LabelSpace::number_of(const LabelledRow& row, const LabelledRows& rows) const {
  const std::optional<double> number = row.label.is_list || row.label.values.empty()
                                           ? std::nullopt
                                           : number_in<double>(row.label.values.front());
  if (!number || !std::isfinite(*number))
    refuse(row, rows,
           fmt::format("its label {} is no number, but the problem is a regression", shown(row.label)));
  return *number;
}

LabelSpace label_space_of(const LabelledRows& rows, std::optional<Problem> problem) {
  LabelSpace space;
  space.problem = problem.value_or(problem_of(rows));
  if (space.problem == Problem::kRegression) {
    for (const LabelledRow& row : rows.rows) space.number_of(row, rows);
    return space;
  }
  if (const LabelledRow* const real = first_of(rows, Kind::kReal))
    refuse(*real, rows,
           fmt::format("its label {} is no class, but a number; give classes names or integers, or leave out "
                       "--problem, for a regression",
                       shown(real->label)));
  std::set<std::string> found;
  for (const LabelledRow& row : rows.rows) {
    if (space.problem == Problem::kSingleLabel && row.label.is_list) space.classes_of(row, rows);
    for (const std::string& value : row.label.values) {
      if (!row.of_spans)
        found.insert(value);
      else
        found.insert({first_tag(value), inner_tag(value)});
    }
    if (row.of_spans) found.insert(kOutsideTag);
    if (static_cast<int64_t>(found.size()) > kMostClasses)
      refuse(row, rows,
             fmt::format("its label {} is the class number {}, more than the {} that Weft takes; for numbers "
                         "in quotes give --problem regression",
                         shown(row.label), found.size(), kMostClasses));
  }
  if (found.size() < 2)
    fail(WEFT_INVALID_ARGUMENT, "{}: all labels are \"{}\", and a classifier needs two classes or more",
         rows.name(), found.empty() ? "" : printable(*found.begin(), 60));
  space.names = ordered(found, first_of(rows, Kind::kText) == nullptr);
  return space;
}

}  // namespace weft::data

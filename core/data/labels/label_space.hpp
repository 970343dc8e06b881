// What the labels of rows are: classes, several classes, or numbers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "labels/labelled_rows.hpp"

namespace weft::data {

// Hugging Face's "problem_type".
enum class Problem { kSingleLabel, kMultiLabel, kRegression };
// Returns the problem of a name ("regression"), and its name. Throws INVALID_ARGUMENT for any other.
Problem problem_named(const std::string& name);
const char* name_of(Problem problem);

// The most classes that are taken from data.
inline constexpr int64_t kMostClasses = 10'000;

// The classes or numbers that labels can be.
struct LabelSpace {
  Problem problem = Problem::kSingleLabel;
  // Of the classes, by id; of a regression none. They do not change after the first call of classes_of().
  std::vector<std::string> names;
  // Whether an integer stands for the class of this id where no class has it for a name.
  bool integers_are_ids = false;

  // Returns the ids of a row's label. Throws INVALID_ARGUMENT with the place of the row for a class that is
  // not among the names, for several labels where there is one, and for a label that is no name or integer.
  std::vector<int64_t> classes_of(const LabelledRow& row, const LabelledRows& rows) const;
  // Returns the number of a row's label. Throws INVALID_ARGUMENT with the place of the row for any other.
  double number_of(const LabelledRow& row, const LabelledRows& rows) const;

 private:
  mutable std::map<std::string, int64_t> ids_;  // made by the first call of classes_of()
};

// Returns what the labels of all rows are. Rows of parts of texts have the tags of their tokens. Lists are
// several labels, integers and texts classes, other numbers those of a regression. Names are in the order of
// their code points, integers in that of their values. `problem`: the one that is asked for. Throws
// INVALID_ARGUMENT, with the place of a row, for labels that are not of that problem, for fewer than two
// classes and for more than kMostClasses.
LabelSpace label_space_of(const LabelledRows& rows, std::optional<Problem> problem);

}  // namespace weft::data

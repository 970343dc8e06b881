// What sdk/docs/models.md says of classes, from a heading to its end: sentences about what the cases of
// class_cases.hpp train for every class, and tables of the classes and of what they refuse.
// tests/policies/write_class_table writes it.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "plugins.hpp"
#include "policies/class_cases.hpp"
#include "policies/trials.hpp"

namespace weft::test {

namespace {

using Lines = std::vector<std::string>;

// The rest of the page is written here.
constexpr const char* kHeading = "### What the tests train";

// Returns the classes of the family in the order of its plugin.json, given one of them.
std::vector<std::string> classes(const std::string& one) {
  const auto manifest = nlohmann::json::parse(view(load_plugin("model", one).manifest));
  for (const nlohmann::json& library : manifest.at("libraries"))
    if (library.at("kind") == "model") return library.at("provides").get<std::vector<std::string>>();
  return {};
}

// Returns a text of several lines as a part of a cell.
std::string in_cell(const std::string& text) {
  Lines lines;
  for (const std::string& line : split(text, '\n')) lines.emplace_back(trim(line));
  std::string joined = fmt::format("{}", fmt::join(lines, " "));
  for (size_t at = 0; (at = joined.find('|', at)) != std::string::npos; at += 2) joined.insert(at, "\\");
  return joined;
}

// Returns a cell of the table, given the refusals of the cases of a class and a column; "" is none.
std::string cell(const std::set<std::string>& refusals) {
  if (refusals.empty()) return "not tested";
  Lines reasons;
  for (const std::string& refusal : refusals)
    if (!refusal.empty()) reasons.push_back(in_cell(refusal));
  if (reasons.empty()) return "yes";
  return fmt::format("{}: {}", refusals.contains("") ? "in part" : "no", fmt::join(reasons, "; "));
}

std::string line_of(const Lines& cells) {
  return fmt::format("| {} |", fmt::join(cells, " | "));
}

// A way to train: "Every class trains <how> <name>."
struct Column {
  std::string how, name;
};

// What the cases say about this family.
struct Own {
  std::vector<Column> columns;
  Lines classes;     // its row in the table of classes
  Lines exceptions;  // its rows in the table of exceptions
};

// What is known of a class.
struct Known {
  bool has_loss = false;
  std::map<std::string, std::set<std::string>> refusals;  // by column
};

Own own_of(const std::vector<ClassCase>& cases) {
  Own own;
  std::map<std::string, Known> known;
  // The plan depends neither on the precision nor on recomputation.
  std::map<std::string, std::string> refusals;
  for (const ClassCase& item : cases) {
    const auto is_its = [&](const Column& column) { return column.name == item.column; };
    if (std::none_of(own.columns.begin(), own.columns.end(), is_its))
      own.columns.push_back({item.how, item.column});
    const auto [found, is_new] =
        refusals.try_emplace(item.job.name + item.job.options.strategy + item.job.options.options);
    if (is_new) found->second = refusal(item.job);
    Known& of_class = known[item.architecture];
    of_class.has_loss |= !item.job.trial.criterion;
    of_class.refusals[item.column].insert(found->second);
  }
  Lines with_loss, without_loss;
  for (const std::string& architecture : classes(cases.front().architecture)) {
    Known& of_class = known[architecture];
    const std::string name = "`" + architecture + "`";
    (of_class.has_loss ? with_loss : without_loss).push_back(name);
    for (const Column& column : own.columns) {
      const std::string found = cell(of_class.refusals[column.name]);
      if (found != "yes") own.exceptions.push_back(line_of({kFamily, name, column.name, found}));
    }
  }
  own.classes.push_back(line_of({kFamily, fmt::format("{}", fmt::join(with_loss, ", ")),
                                 fmt::format("{}", fmt::join(without_loss, ", "))}));
  return own;
}

// Joins names as "a, b and c".
std::string enumeration(Lines names) {
  if (names.size() > 1) {
    const std::string last = names.back();
    names.pop_back();
    names.back() += " and " + last;
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns sentences about the ways in which every class trains: those without an exception.
Lines sentences(const std::vector<Column>& columns, const Lines& exceptions) {
  std::vector<std::pair<std::string, Lines>> names_by_how;
  for (const Column& column : columns) {
    const auto is_about_it = [&](const std::string& row) {
      return row.find("| " + column.name + " |") != std::string::npos;
    };
    if (std::any_of(exceptions.begin(), exceptions.end(), is_about_it)) continue;
    const auto is_its = [&](const auto& names) { return names.first == column.how; };
    const auto found = std::find_if(names_by_how.begin(), names_by_how.end(), is_its);
    if (found == names_by_how.end())
      names_by_how.emplace_back(column.how, Lines{column.name});
    else
      found->second.push_back(column.name);
  }
  Lines lines;
  for (const auto& [how, names] : names_by_how)
    lines.push_back(fmt::format("- Every class trains {} {}.", how, enumeration(names)));
  return lines;
}

Lines lines_of_page() {
  std::ifstream file(WEFT_CLASS_PAGE);
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<Lines> tables_in(const Lines& lines) {
  std::vector<Lines> tables;
  bool inside = false;
  for (const std::string& line : lines) {
    if (line.starts_with("|") && !inside) tables.emplace_back();
    inside = line.starts_with("|");
    if (inside) tables.back().push_back(line);
  }
  return tables;
}

// Returns the rows of a table by family: `own`, and those that `found` has of other families that exist.
Lines with_own_rows(const Lines& own, const Lines& found) {
  Lines rows;
  for (const std::string& family : split(WEFT_FAMILIES, ' ')) {
    if (family == kFamily) {
      rows.insert(rows.end(), own.begin(), own.end());
      continue;
    }
    for (const std::string& row : found)
      if (row.starts_with("| " + family + " |")) rows.push_back(row);
  }
  return rows;
}

// Returns what the page says of classes, given what it says now.
Lines wanted_lines(const Own& own, const Lines& found) {
  std::vector<Lines> tables = tables_in(found);
  tables.resize(2);
  const Lines exceptions = with_own_rows(own.exceptions, tables[1]);
  Lines lines = sentences(own.columns, exceptions);
  const auto add = [&](const Lines& more) { lines.insert(lines.end(), more.begin(), more.end()); };
  add({"", "| family | classes with a loss of their own | classes that need a criterion |", "|---|---|---|"});
  add(with_own_rows(own.classes, tables[0]));
  lines.emplace_back();
  if (exceptions.empty()) {
    lines.emplace_back("There are no exceptions.");
    return lines;
  }
  lines.emplace_back("These are the exceptions; all other classes train in these ways, too.");
  add({"", "| family | class | way | result |", "|---|---|---|---|"});
  add(exceptions);
  return lines;
}

std::string difference(const Lines& found, const Lines& wanted) {
  std::string text;
  const auto add = [&](const char* sign, const Lines& lines, const Lines& others) {
    for (const std::string& line : lines)
      if (std::find(others.begin(), others.end(), line) == others.end()) text += sign + line + "\n";
  };
  add("- ", found, wanted);
  add("+ ", wanted, found);
  return text.empty() ? "the rows are in another order\n" : text;
}

TEST(ClassTable, IsTheOneOfTheDocuments) {
  const Own own = own_of(class_cases());
  Lines page = lines_of_page();
  const auto heading = std::find(page.begin(), page.end(), kHeading);
  ASSERT_NE(heading, page.end()) << WEFT_CLASS_PAGE << " has no line \"" << kHeading << "\"";
  const auto begin = heading + 1;
  const Lines found(begin, page.end()), wanted = wanted_lines(own, found);
  const char* writes = std::getenv("WEFT_WRITE_CLASS_TABLE");
  if (writes == nullptr || std::string_view(writes) != "1") {
    EXPECT_TRUE(found == wanted) << WEFT_CLASS_PAGE << " differs from what the tests train and refuse:\n"
                                 << difference(found, wanted)
                                 << "run tests/policies/write_class_table to write it";
    return;
  }
  page.insert(page.erase(begin, page.end()), wanted.begin(), wanted.end());
  std::ofstream file(WEFT_CLASS_PAGE);
  for (const std::string& line : page) file << line << "\n";
}

TEST(ClassTable, HasCasesOfEveryClass) {
  const std::vector<ClassCase> cases = class_cases();
  std::set<std::string> tried;
  for (const ClassCase& item : cases) tried.insert(item.architecture);
  const std::vector<std::string> all = classes(cases.front().architecture);
  EXPECT_EQ(tried, std::set<std::string>(all.begin(), all.end()));
}

TEST(ClassTable, SaysWhatIsRefused) {
  EXPECT_EQ(cell({}), "not tested");
  EXPECT_EQ(cell({""}), "yes");
  EXPECT_EQ(cell({"2 problems\n  a|b\n  c"}), "no: 2 problems a\\|b c");
  EXPECT_EQ(cell({"", "a", "b"}), "in part: a; b");
}

TEST(ClassTable, SaysInSentencesWhatHoldsForEveryClass) {
  const std::vector<Column> columns = {{"under", "`a`"}, {"with", "b"}, {"under", "`c`"}, {"under", "d"}};
  const Lines all = {"- Every class trains under `a`, `c` and d.", "- Every class trains with b."};
  EXPECT_EQ(sentences(columns, {}), all);
  const Lines exceptions = {"| f | `C` | `a` | no: x |", "| f | `C` | b | no: x |"};
  const Lines some = {"- Every class trains under `c` and d."};
  EXPECT_EQ(sentences(columns, exceptions), some);
}

TEST(ClassTable, KeepsWhatOtherFamiliesHave) {
  const Lines families = split(WEFT_FAMILIES, ' ');
  const std::string other = families.front() == kFamily ? families.back() : families.front();
  const std::string row = line_of({other, "`B`", ""}), exception = line_of({other, "`B`", "`a`", "no: x"});
  const Own own = {{{"under", "`a`"}, {"under", "`b`"}}, {line_of({kFamily, "`A`", ""})}, {}};
  const Lines page = wanted_lines(own, {row, "", exception});
  EXPECT_EQ(page.front(), "- Every class trains under `b`.");
  EXPECT_EQ(page.back(), exception);
  EXPECT_EQ(std::count(page.begin(), page.end(), row), 1);
  EXPECT_EQ(wanted_lines(own, page), page);
}

// 5 divides the heads of no tiny model.
TEST(ClassTable, HasTheRefusalsOfBoost) {
  Case refused = class_cases().front().job;
  refused.options.strategy = "hybrid_parallel";
  refused.options.options = R"({"tp_size": 5})";
  const std::string reason = refusal(refused);
  EXPECT_NE(reason.find("tensor_size 5"), std::string::npos) << reason;
  expect_refusals({{refused, reason}}, 5);
}

}  // namespace

}  // namespace weft::test

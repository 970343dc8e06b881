// The table of classes in sdk/docs/models.md: a row for each class of the family, with what the cases of
// class_cases.hpp train or refuse. tests/policies/write_class_table writes it.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/text.hpp"
#include "plugins.hpp"
#include "policies/class_cases.hpp"
#include "policies/trials.hpp"

namespace weft::test {

namespace {

using Lines = std::vector<std::string>;

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

struct Table {
  Lines head, rows;  // the rows of this family
};

// What is known of a class.
struct Known {
  bool has_loss = false;
  std::map<std::string, std::set<std::string>> refusals;  // by column
};

Table table_of(const std::vector<ClassCase>& cases) {
  Lines columns;
  std::map<std::string, Known> known;
  // The plan depends neither on the precision nor on recomputation.
  std::map<std::string, std::string> refusals;
  for (const ClassCase& item : cases) {
    if (std::find(columns.begin(), columns.end(), item.column) == columns.end())
      columns.push_back(item.column);
    const auto [found, is_new] =
        refusals.try_emplace(item.job.name + item.job.options.strategy + item.job.options.options);
    if (is_new) found->second = refusal(item.job);
    Known& of_class = known[item.architecture];
    of_class.has_loss |= !item.job.trial.criterion;
    of_class.refusals[item.column].insert(found->second);
  }
  Table table;
  Lines titles = {"family", "class", "loss"};
  titles.insert(titles.end(), columns.begin(), columns.end());
  std::string rule = "|";
  for (size_t i = 0; i < titles.size(); ++i) rule += "---|";
  table.head = {line_of(titles), rule};
  for (const std::string& architecture : classes(cases.front().architecture)) {
    Known& of_class = known[architecture];
    Lines cells = {kFamily, "`" + architecture + "`", of_class.has_loss ? "its own" : "a criterion"};
    for (const std::string& column : columns) cells.push_back(cell(of_class.refusals[column]));
    table.rows.push_back(line_of(cells));
  }
  return table;
}

Lines lines_of_page() {
  std::ifstream file(WEFT_CLASS_PAGE);
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Returns the table of the document with the rows of this family, and without those of families that do not
// exist.
Lines with_own_rows(const Table& own, const Lines& found) {
  Lines table = own.head;
  for (const std::string& family : split(WEFT_FAMILIES, ' ')) {
    if (family == kFamily) {
      table.insert(table.end(), own.rows.begin(), own.rows.end());
      continue;
    }
    for (const std::string& row : found)
      if (row.starts_with("| " + family + " |")) table.push_back(row);
  }
  return table;
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
  const Table own = table_of(class_cases());
  Lines page = lines_of_page();
  const auto begins = [](const std::string& line) { return line.starts_with("| family | class |"); };
  const auto begin = std::find_if(page.begin(), page.end(), begins);
  ASSERT_NE(begin, page.end()) << WEFT_CLASS_PAGE << " has no table that begins with\n" << own.head.front();
  const auto end =
      std::find_if(begin, page.end(), [](const std::string& line) { return !line.starts_with("|"); });
  const Lines found(begin, end), wanted = with_own_rows(own, found);
  const char* writes = std::getenv("WEFT_WRITE_CLASS_TABLE");
  if (writes == nullptr || std::string_view(writes) != "1") {
    EXPECT_TRUE(found == wanted) << WEFT_CLASS_PAGE << " differs from what the tests train and refuse:\n"
                                 << difference(found, wanted)
                                 << "run tests/policies/write_class_table to write it";
    return;
  }
  page.insert(page.erase(begin, end), wanted.begin(), wanted.end());
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

// Tables, rows with labels, and their samples.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "data/text_fixture.hpp"
#include "labels/label_space.hpp"
#include "labels/labelled_rows.hpp"
#include "labels/span_tags.hpp"
#include "support/expect_error.hpp"
#include "text/records.hpp"
#include "text/text_documents.hpp"

namespace weft::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Fields = std::vector<std::string>;

std::vector<Fields> rows_of(std::string_view content, const std::string& file = "a.csv") {
  Table table(content, file);
  std::vector<Fields> rows = {table.columns()};
  while (const auto row = table.next()) rows.push_back(row->fields);
  return rows;
}

TEST(Tables, AreReadAsRfc4180Says) {
  const std::vector<Fields> expected = {{"text", "label"}, {"a, \"b\"\r\nc", "x"}, {"", "y z"}, {" d ", ""}};
  const std::string rows = "text,label\r\n\"a, \"\"b\"\"\r\nc\",x\r\n\r\n\"\",y z\r\n d ,";
  EXPECT_EQ(rows_of(rows), expected);
  EXPECT_EQ(rows_of("\xef\xbb\xbf" + rows + "\r\n\r\n"), expected);
  EXPECT_EQ(rows_of("text\tlabel\n\"a, \"\"b\"\"\r\nc\"\tx\n\ty z\n d \t\n", "a.TSV"), expected);
  EXPECT_EQ(rows_of("a\n\"x\"\ny"), (std::vector<Fields>{{"a"}, {"x"}, {"y"}}));
  EXPECT_EQ(rows_of("a,b\n1\r2,3\n"), (std::vector<Fields>{{"a", "b"}, {"1\r2", "3"}}));
}

TEST(Tables, RefuseRowsThatAreBrokenAndGoOn) {
  EXPECT_ERROR(rows_of(""), WEFT_INVALID_ARGUMENT, "a.csv:1: ", "empty");
  EXPECT_ERROR(rows_of("\r\n"), WEFT_INVALID_ARGUMENT, "a.csv:1: ");
  EXPECT_ERROR(rows_of("a,b,a\n"), WEFT_INVALID_ARGUMENT, "a.csv:1: ", "\"a\"");
  EXPECT_ERROR(rows_of("a,b\n\"c,d\n"), WEFT_DATA_LOSS, "no end");
  const std::pair<std::string, const char*> broken[] = {
      {"c", "1 fields"},
      {"c,d,e", "3 fields"},
      {"c,d\"e", "without quotes"},
      {"\"c\"d,e", "goes on"},
      {"\"c\" ,e", "goes on"},
      {"c,\xff", "UTF-8"},
      {std::string("c,\0", 3), "zero"},
      {"\"c,d\"", "1 fields"},
  };
  for (const auto& [row, says] : broken) {
    const std::string content = "a,b\n1,2\n" + row + "\n3,4\n";
    Table table(content, "a.csv");
    EXPECT_EQ(table.next()->fields, (Fields{"1", "2"}));
    EXPECT_ERROR(table.next(), WEFT_INVALID_ARGUMENT, says);
    EXPECT_EQ(table.offset(), 8u) << row;
    EXPECT_EQ(table.next()->fields, (Fields{"3", "4"})) << row;
    EXPECT_FALSE(table.next()) << row;
  }
}

TEST(Tables, AreDividedBetweenRows) {
  std::string content = "text,n\n";
  std::vector<std::string> expected;
  for (int i = 0; i < 50; ++i) {
    const std::string text(static_cast<size_t>(i * 7 % 23), i % 3 == 0 ? '\n' : 'x');
    expected.push_back(text + "\"\n");
    content += "\"" + text + "\"\"\n\"," + std::to_string(i) + "\n";
    if (i == 20) content += "broken\n";
  }
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{100000}}) {
    std::vector<std::string> found;
    size_t end = 7;
    for (const JsonStretch& stretch : table_stretches(content, "a.csv", bytes)) {
      EXPECT_EQ(stretch.offset, end);
      end += stretch.text.size();
      Records records(content, "a.csv", stretch);
      for (bool more = true; more;) try {
          const auto record = records.next();
          more = record.has_value();
          if (more) found.push_back(record->at("text"));
        } catch (const Error& error) {
          EXPECT_EQ(error.status(), WEFT_INVALID_ARGUMENT) << error.what();
        }
    }
    EXPECT_EQ(end, content.size());
    EXPECT_EQ(found, expected) << bytes;
  }
}

TEST_F(Text, OfTablesIsThatOfJsonLines) {
  const std::string lines = folder_.file("a.jsonl", "{\"text\": \"ab \\\"c\\\"\"}\n{\"text\": \"d,\\n\"}\n"),
                    table = folder_.file("a.csv", "id,text\n1,\"ab \"\"c\"\"\"\n2,\"d,\n\"\n");
  EXPECT_EQ(all_ids(table), all_ids(lines));
  EXPECT_EQ(all_ids(folder_.file("p.tsv", "completion\tprompt\nb\ta\n")),
            all_ids(folder_.file("p.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n")));
  EXPECT_ERROR(open(folder_.file("b.csv", "sentence,label\na,b\n")), WEFT_INVALID_ARGUMENT,
               "b.csv:2: ", "label, sentence");
  EXPECT_ERROR(open(folder_.file("c.csv", "text\nab\n\"cd\" e\n")), WEFT_INVALID_ARGUMENT,
               "c.csv:3: ", "--skip-broken-lines");
  std::vector<std::string> notes;
  TextOptions options{.skip_broken_lines = true,
                      .note = [&](const std::string& note) { notes.push_back(note); }};
  EXPECT_EQ(open(folder_.path() + "/c.csv", 4, options)->size(), 1);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("1 broken line")));
  options.sequence_length = 4;
  const auto documents = open_encoded_documents({{table, {}}}, encoder_, options);
  ASSERT_EQ(documents->places().size(), 2u);
  EXPECT_EQ(documents->places()[1].line, 3);
}

class LabelledRowFiles : public testing::Test {
 protected:
  LabelledRows read(const std::string& name, const std::string& content, RowReading reading = {}) {
    return read_labelled_rows({folder_.file(name, content)}, reading);
  }
  LabelSpace space(const std::string& name, const std::string& content, std::optional<Problem> problem = {}) {
    return label_space_of(read(name, content), problem);
  }
  test::TemporaryFolder folder_;
};

TEST_F(LabelledRowFiles, AreRefusedWithTheirLine) {
  EXPECT_ERROR(read("a.csv", "text,lable\na,b\n"), WEFT_INVALID_ARGUMENT,
               "a.csv:2: ", "did you mean \"lable\"", "lable, text", "--label-column");
  EXPECT_ERROR(read("a.csv", "text,label\na,b\nc,\n"), WEFT_INVALID_ARGUMENT, "a.csv:3: ", "empty");
  EXPECT_ERROR(read("a.csv", "text,label\na,b\nc\n"), WEFT_INVALID_ARGUMENT, "a.csv:3: ", "1 fields");
  EXPECT_ERROR(read("a.csv", "text,label\n\"a,b\n"), WEFT_DATA_LOSS, "a.csv:2: ");
  EXPECT_ERROR(read("a.csv", "text,label\n"), WEFT_INVALID_ARGUMENT, "a.csv", "no rows");
  EXPECT_ERROR(read("a.csv", ""), WEFT_INVALID_ARGUMENT, "a.csv:1: ");
  EXPECT_ERROR(read("a.jsonl", ""), WEFT_INVALID_ARGUMENT, "a.jsonl", "no rows");
  EXPECT_ERROR(read("a.txt", "a"), WEFT_INVALID_ARGUMENT, "a.txt", ".csv");
  const std::pair<const char*, const char*> broken[] = {
      {"{\"text\": \"a\"}", "no \"label\""},
      {"{\"text\": \"a\", \"label\": null}", "null"},
      {"{\"text\": \"a\", \"label\": {}}", "an object"},
      {"{\"text\": \"a\", \"label\": [[1]]}", "must be"},
      {"{\"text\": \"a\", \"label\": [1.5]}", "1.5"},
      {"{\"text\": \"a\", \"label\": [\"b\", 2]}", "one kind"},
      {"{\"text\": \"a\", \"label\": [\"b\"]}", "a list"},
      {"{\"text\": \"a\", \"label\": 3}", "an integer"},
      {"{\"text\": 7, \"label\": \"b\"}", "\"text\" is"},
      {"{\"label\": \"b\"}", "no \"text\""},
      {"{\"text\": \"\xff\", \"label\": \"b\"}", "not valid JSON"},
      {"[1]", "an object"},
  };
  for (const auto& [line, says] : broken) {
    const std::string content = std::string("{\"text\": \"x\", \"label\": \"y\"}\n") + line +
                                "\n{\"text\": \"x\", \"label\": \"z\"}\n";
    EXPECT_ERROR(read("a.jsonl", content), WEFT_INVALID_ARGUMENT, "a.jsonl:2: ", says, "--skip-broken-lines");
    std::vector<std::string> notes;
    RowReading reading;
    reading.skip_broken_lines = true;
    reading.note = [&](const std::string& note) { notes.push_back(note); };
    EXPECT_EQ(read("a.jsonl", content, reading).rows.size(), 2u) << line;
    EXPECT_THAT(notes, ElementsAre(HasSubstr("1 broken line"))) << line;
  }
  EXPECT_ERROR(read("a.json", "[{\"text\": \"a\", \"label\": 1},\n{\"text\": \"a\"}]"), WEFT_INVALID_ARGUMENT,
               "a.json:2: element 2");
}

TEST_F(LabelledRowFiles, MayHaveOtherColumnsAndNoLabels) {
  RowReading reading;
  reading.columns = {"premise", "hypothesis", "gold"};
  const LabelledRows pairs =
      read("a.tsv", "gold\thypothesis\tpremise\n1\tb\ta\n0\t\t\"c\nd\"\n1\te\tf\n", reading);
  ASSERT_EQ(pairs.rows.size(), 3u);
  EXPECT_EQ(pairs.rows[1].text, "c\nd");
  EXPECT_EQ(pairs.rows[1].second_text, "");
  EXPECT_THAT(pairs.text_of(pairs.rows[2].place), testing::EndsWith("a.tsv:5"));
  EXPECT_EQ(pairs.rows[2].place.index, 2);
  reading = {};
  reading.labels = false;
  const LabelledRows bare = read("a.csv", "text,label\na,\nb,7\n", reading);
  EXPECT_EQ(bare.rows[0].label.kind, RowLabel::Kind::kNone);
  EXPECT_EQ(bare.rows.size(), 2u);
}

TEST_F(LabelledRowFiles, SayWhatTheirLabelsAre) {
  const LabelSpace names = space("a.csv", "text,label\na,z\nb,10\nc,\xc3\xa4\nd,B\ne,z\n");
  EXPECT_EQ(names.problem, Problem::kSingleLabel);
  EXPECT_THAT(names.names, ElementsAre("10", "B", "z", "\xc3\xa4"));
  EXPECT_THAT(space("a.csv", "text,label\na,10\nb,9\nc,-1\n").names, ElementsAre("-1", "9", "10"));
  const std::string integers = "{\"text\": \"a\", \"label\": 10}\n{\"text\": \"b\", \"label\": 9}\n";
  EXPECT_THAT(space("a.jsonl", integers).names, ElementsAre("9", "10"));
  EXPECT_EQ(space("a.jsonl", integers, Problem::kRegression).problem, Problem::kRegression);
  EXPECT_THAT(
      space("a.jsonl", "{\"text\": \"a\", \"label\": true}\n{\"text\": \"b\", \"label\": false}\n").names,
      ElementsAre("0", "1"));
  const LabelSpace several = space(
      "a.jsonl", "{\"text\": \"a\", \"label\": [\"b\", \"a\", \"b\"]}\n{\"text\": \"b\", \"label\": []}\n");
  EXPECT_EQ(several.problem, Problem::kMultiLabel);
  EXPECT_THAT(several.names, ElementsAre("a", "b"));
  for (const char* number : {"1.0", "1e3", "-0.5", "99999999999999999999"})
    EXPECT_EQ(space("a.csv", fmt::format("text,label\na,1\nb,{}\n", number)).problem, Problem::kRegression)
        << number;
  const LabelledRows rows = read("a.csv", "text,label\na,0.25\nb,-3\n");
  EXPECT_EQ(label_space_of(rows, {}).number_of(rows.rows[0], rows), 0.25);

  EXPECT_ERROR(space("a.csv", "text,label\na,x\nb,1\n", Problem::kRegression), WEFT_INVALID_ARGUMENT,
               "a.csv:2: ", "\"x\"");
  EXPECT_ERROR(space("a.csv", "text,label\na,1\nb,1.5\n", Problem::kSingleLabel), WEFT_INVALID_ARGUMENT,
               "a.csv:3: ", "1.5");
  EXPECT_ERROR(space("a.csv", "text,label\na,x\nb,x\n"), WEFT_INVALID_ARGUMENT, "two classes");
  std::string many = "text,label\n", quoted;
  for (int i = 0; i < 100'000; ++i) {
    many += fmt::format("a,{}.5x\n", i);
    quoted += fmt::format("{{\"text\": \"a\", \"label\": \"{}.5\"}}\n", i);
  }
  EXPECT_ERROR(space("a.csv", many), WEFT_INVALID_ARGUMENT, "a.csv:10002: ", "10000");
  EXPECT_ERROR(space("a.jsonl", quoted), WEFT_INVALID_ARGUMENT, "a.jsonl:10001: ", "--problem regression");
  EXPECT_EQ(space("a.jsonl", quoted, Problem::kRegression).problem, Problem::kRegression);
}

TEST_F(LabelledRowFiles, HaveClassesThatAModelKnowsOrAreRefused) {
  const LabelledRows rows = read("a.csv", "text,label\na,x\nb,2\nc,y\n");
  LabelSpace space;
  space.names = {"y", "x"};
  EXPECT_THAT(space.classes_of(rows.rows[0], rows), ElementsAre(1));
  EXPECT_THAT(space.classes_of(rows.rows[2], rows), ElementsAre(0));
  EXPECT_ERROR(space.classes_of(rows.rows[1], rows), WEFT_INVALID_ARGUMENT, "a.csv:3: ", "\"2\"", "y, x");
  space.integers_are_ids = true;
  EXPECT_ERROR(space.classes_of(rows.rows[1], rows), WEFT_INVALID_ARGUMENT, "a.csv:3: ");
  LabelSpace three;
  three.names = {"x", "y", "z"};
  three.integers_are_ids = true;
  EXPECT_THAT(three.classes_of(rows.rows[1], rows), ElementsAre(2));
}

TEST_F(LabelledRowFiles, HaveSpansWhosePlacesCountCharacters) {
  RowReading reading;
  reading.columns.of_words = true;
  const std::string text = "{\"text\": \"K\u00f6ln am Rhein\", \"spans\": ";
  const LabelledRows rows =
      read("a.jsonl",
           text +
               "[{\"start\": 8, \"end\": 13, \"label\": \"R\"}, {\"start\": 0, \"end\": 4, "
               "\"label\": \"C\"}]}\n" +
               text + "[]}\n",
           reading);
  ASSERT_EQ(rows.rows.size(), 2u);
  EXPECT_EQ(rows.rows[0].spans[0].end, 5u);
  EXPECT_EQ(rows.rows[0].spans[1].begin, 9u);
  const LabelSpace space = label_space_of(rows, {});
  EXPECT_THAT(space.names, ElementsAre("B-C", "B-R", "I-C", "I-R", "O"));
  EncodedSequence sequence;
  sequence.spans = {{0, 0}, {0, 3}, {3, 5}, {6, 8}, {9, 11}, {11, 14}, {0, 0}};
  sequence.ids.resize(7);
  EXPECT_EQ(span_labels(rows.rows[0], rows, sequence, space.names), (Ids{-100, 0, 2, 4, 1, 3, -100}));
  EXPECT_EQ(span_labels(rows.rows[1], rows, sequence, space.names), (Ids{-100, 4, 4, 4, 4, 4, -100}));
  EXPECT_ERROR(span_labels(rows.rows[0], rows, sequence, {"O", "B-C"}), WEFT_INVALID_ARGUMENT,
               "a.jsonl:1: ", "I-C");
  const std::vector<PredictedSpan> found = spans_of(
      rows.rows[0].text, sequence, {"O", "B-C", "I-C", "I-R", "I-R", "B-R", "O"}, {1, .5, 1, 1, .5, 1, 1});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(std::pair(found[0].start, found[0].end), (std::pair<int64_t, int64_t>(0, 4)));
  EXPECT_EQ(found[0].probability, 0.75);
  EXPECT_EQ(std::pair(found[1].start, found[1].end), (std::pair<int64_t, int64_t>(5, 10)));
  EXPECT_EQ(std::pair(found[2].start, found[2].end), (std::pair<int64_t, int64_t>(10, 13)));
  EXPECT_EQ(found[2].label, "R");
  for (const auto& [spans, says] :
       {std::pair("[{\"start\": 0, \"end\": 14, \"label\": \"C\"}]", "13 characters"),
        std::pair("[{\"start\": -1, \"end\": 2, \"label\": \"C\"}]", "\"start\""),
        std::pair("[{\"start\": 2, \"end\": 2, \"label\": \"C\"}]", "must have"),
        std::pair("[{\"start\": 0, \"end\": 2}]", "\"label\""),
        std::pair("[{\"start\": 0, \"end\": 4, \"label\": \"C\"}, {\"start\": 3, "
                  "\"end\": 5, \"label\": \"D\"}]",
                  "overlap"),
        std::pair("[3]", "must have"), std::pair("{}", "a list")}) {
    const std::string line = text + spans + "}\n";
    EXPECT_ERROR(read("a.jsonl", line, reading), WEFT_INVALID_ARGUMENT, "a.jsonl:1: ", says);
  }
}

}  // namespace
}  // namespace weft::data

// JSON files that are one array, and the files that a folder or a pattern stands for.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/text_fixture.hpp"
#include "support/expect_error.hpp"
#include "text/json_records.hpp"

namespace weft::data {
namespace {

// Returns the records of a file that is divided into stretches of so many bytes.
std::vector<std::string> records_of(std::string_view content, size_t bytes = SIZE_MAX) {
  std::vector<std::string> found;
  for (const JsonStretch& stretch : json_stretches(content, "a.json", bytes)) {
    EXPECT_EQ(content.substr(stretch.offset, stretch.text.size()), stretch.text);
    JsonRecords records(stretch);
    while (const auto record = records.next()) {
      EXPECT_TRUE(content.substr(record->offset).starts_with(record->text)) << content;
      found.push_back(fmt::format("{} {}", place_of(*record, "a", content), record->text));
    }
  }
  return found;
}

TEST(JsonRecords, AreLinesOrTheElementsOfOneArray) {
  using Records = std::vector<std::string>;
  EXPECT_EQ(records_of(""), Records());
  EXPECT_EQ(records_of("{\"a\": 1}\n\n{\"b\": [1,\r\n2"),
            (Records{"a:1 {\"a\": 1}", "a:3 {\"b\": [1,", "a:4 2"}));
  EXPECT_EQ(records_of("[]\n"), Records());
  EXPECT_EQ(records_of("\xef\xbb\xbf\n[{\"a\": 1}]\n"), Records{"a:2: element 1 {\"a\": 1}"});
  // Brackets and commas inside of texts and of other values divide nothing.
  const std::string array = "[\n {\"a\": \"],\\\"]\\\\\"}, {\"b\": [1, {\"c\": []}]},\n\n{\"d\":\n2}\n]";
  const Records expected = {"a:2: element 1 {\"a\": \"],\\\"]\\\\\"}",
                            "a:2: element 2 {\"b\": [1, {\"c\": []}]}", "a:4: element 3 {\"d\":\n2}"};
  for (const size_t bytes : {size_t{1}, size_t{20}, size_t{40}, SIZE_MAX})
    EXPECT_EQ(records_of(array, bytes), expected) << bytes;
  EXPECT_GT(json_stretches(array, "a.json", 1).size(), 2u);
  // Lines that are arrays are not one array, and a comma has an element on each side.
  EXPECT_EQ(records_of("[1]\n[2]"), (Records{"a:1 [1]", "a:2 [2]"}));
  EXPECT_EQ(records_of("[1,]"), (Records{"a:1: element 1 1", "a:1: element 2 "}));
  for (const char* cut : {"[", "[{\"a\": 1}", "[{\"a\": 1},\n", "[\n{\"a\": \"b]\n", "[{\"a\": \"\\"})
    EXPECT_ERROR(records_of(cut), WEFT_INVALID_ARGUMENT, "a.json:", "no end") << cut;
}

TEST_F(Text, IsReadFromAnArrayAsFromLines) {
  encoder_.chat_template = "{% for m in messages %}{{ m.role[0] ~ m.content ~ '.' }}{% endfor %}";
  const std::vector<std::string> objects = {
      R"({"text": "ab, \"[c]\""})", R"({"prompt": "d\n", "completion": "\ne"})",
      R"({"messages": [{"role": "user", "content": "f"}, {"role": "assistant", "content": "g"}]})",
      R"({"text": ""})"};
  const std::string lines = fmt::format("{}\n", fmt::join(objects, "\n"));
  const Ids expected = all_ids(folder_.file("lines.jsonl", lines));
  ASSERT_GT(expected.size(), 20u);
  const std::string one_line = fmt::format("[{}]", fmt::join(objects, ", "));
  const std::string pretty = fmt::format("[\n  {}\n]\n", fmt::join(objects, ",\n  "));
  for (const char* name : {"a.json", "a.jsonl"})
    for (const std::string& text : {one_line, pretty}) EXPECT_EQ(all_ids(folder_.file(name, text)), expected);
  TextOptions options{.packing = Packing::kNone};
  const Batch of_lines = open(folder_.path() + "/lines.jsonl", 16, options)->get({0, 1, 2}),
              of_array = open(folder_.path() + "/a.jsonl", 16, options)->get({0, 1, 2});
  EXPECT_EQ(values(of_array.at("labels")), values(of_lines.at("labels")));
  const auto places =
      open_encoded_documents({{folder_.path() + "/a.jsonl", {}}}, encoder_, {.sequence_length = 9});
  EXPECT_EQ(places->places().back().line, 4);
}

TEST_F(Text, IsReadFromALongArrayInPieces) {
  std::string array = "[\n";
  Ids expected;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = fmt::format("{}{}", i, std::string(400, 'a'));
    array += fmt::format("{}{{\"text\": \"{}\"}}", i > 0 ? ",\n" : "", text);
    const Ids ids = joined({{kBegin}, encode_pairs(text), {kEnd}});
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  const std::string path = folder_.file("a.json", array + "\n]");
  EXPECT_EQ(all_ids(path), expected);
  const TextFiles files = find_text_files(path);
  EXPECT_GT(DocumentEncoder(files, encoder_, false).pieces_of(0, array + "\n]").size(), 3u);
}

TEST_F(Text, NamesTheElementThatIsBroken) {
  const std::pair<const char*, const char*> broken[] = {
      {"{\"text\": }", "not valid JSON"}, {"7", "an integer"},
      {"{\"texts\": \"a\"}", "none of"},  {"{\"text\": 7}", "\"text\""},
      {"{\"messages\": []}", "empty"},    {"", "empty"}};
  for (const auto& [element, says] : broken) {
    const std::string path = folder_.file(
        "a.json", fmt::format("[{{\"text\": \"abcdef\"}},\n\n{}, {{\"text\": \"g\"}}]", element));
    EXPECT_ERROR(open(path), WEFT_INVALID_ARGUMENT, "a.json:3: element 2: ", says, "--skip-broken-lines");
    std::vector<std::string> notes;
    TextOptions options{.skip_broken_lines = true,
                        .note = [&](const std::string& note) { notes.push_back(note); }};
    EXPECT_EQ(open(path, 4, options)->size(), (8 + 3) / 4) << element;
    EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr("1 broken line"))) << element;
  }
  EXPECT_ERROR(open(folder_.file("b.json", "[{\"text\": \"a\"},\n{\"text\": \"b")), WEFT_INVALID_ARGUMENT,
               "b.json:2: ", "no end", "element 2");
  EXPECT_ERROR(open(folder_.file("c.json", "{\n  \"text\": \"a\"\n}\n")), WEFT_INVALID_ARGUMENT,
               "c.json:1: ", "one array of objects");
}

TEST_F(Text, HasFormatsByTheEndOfTheNameInAnyCase) {
  const std::string lines = "{\"text\": \"abcdef\"}\n{\"text\": \"g\"}\n";
  const Ids expected = all_ids(folder_.file("a.jsonl", lines));
  ASSERT_EQ(expected.size(), 11u);
  for (const char* name : {"b.JSONL", "c.Json", "d.jsonlines", "e.NDJSON"})
    EXPECT_EQ(all_ids(folder_.file(name, lines)), expected) << name;
  for (const char* name : {"a.json5", "a.parquet"})
    EXPECT_ERROR(open(folder_.file(name, lines)), WEFT_INVALID_ARGUMENT, name, "JSON lines", ".txt");
  EXPECT_ERROR(open(folder_.file("a.jsonl.gz", lines)), WEFT_INVALID_ARGUMENT, "a.jsonl.gz", "decompress");
  EXPECT_ERROR(open(folder_.path() + "/*.parquet"), WEFT_INVALID_ARGUMENT, "a.parquet", "*.parquet");
  EXPECT_ERROR(data::open(folder_.file("a.csv", "text\na"), 4, TokenType::kUint16), WEFT_INVALID_ARGUMENT,
               "a.csv");
  EXPECT_NO_THROW(open(folder_.file("a.log", lines)));
}

TEST_F(Text, SaysWhichFilesOfAFolderAreNotRead) {
  std::vector<std::string> notes;
  TextOptions options{.note = [&](const std::string& note) { notes.push_back(note); }};
  fs::create_directories(folder_.path() + "/in/below");
  folder_.file("in/a.TXT", "abcdefgh");
  folder_.file("in/.hidden", "no");
  const std::string in = folder_.path() + "/in";
  open(in, 4, options);
  EXPECT_THAT(notes, testing::IsEmpty());
  folder_.file("in/below/b.dat", "no");
  for (const char name : {'c', 'd', 'e', 'f', 'g', 'h'}) folder_.file(fmt::format("in/{}.log", name), "no");
  open(in, 4, options);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], testing::HasSubstr(in + ": 7 files left out"));
  EXPECT_THAT(notes[0], testing::HasSubstr(": below/b.dat, c.log, d.log, e.log, f.log and 2 more"));
  open_encoded_documents({{in, {}}}, encoder_, [&] {
    options.sequence_length = 4;
    return options;
  }());
  EXPECT_EQ(notes.size(), 2u);
}

}  // namespace
}  // namespace weft::data

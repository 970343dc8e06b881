// Files of questions, and their windows and labels as samples.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/text_fixture.hpp"
#include "questions/question_samples.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

using nlohmann::json;

constexpr int64_t kClass = 300, kBetween = 301, kBehind = 302, kPadding = 303;

// Each character but a space is a token, whose id is its first byte.
TokenSpans::Encoded encode_characters(std::string_view text) {
  TokenSpans::Encoded encoded;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at++;
    while (at < text.size() && static_cast<unsigned char>(text[at]) >> 6 == 2) ++at;
    if (text[begin] == ' ') continue;
    encoded.ids.push_back(static_cast<unsigned char>(text[begin]));
    encoded.spans.push_back({begin, at});
  }
  return encoded;
}

QuestionEncoder character_encoder() {
  QuestionEncoder encoder;
  encoder.encode = [](std::string_view text) { return encode_characters(text).ids; };
  encoder.encode_with_spans = encode_characters;
  encoder.pair.before = {{kClass}, {0}};
  encoder.pair.between = {{kBetween, kBetween}, {0, 1}};
  encoder.pair.after = {{kBehind}, {1}};
  encoder.vocabulary_size = kPadding + 1;
  encoder.name = "test/tokenizer.json";
  encoder.padding = kPadding;
  return encoder;
}

json question(const std::string& id, const std::string& text, const json& answers = json::array()) {
  return {{"id", id}, {"question", text}, {"answers", answers}};
}

json answer(const std::string& text, int64_t start) {
  return {{"text", text}, {"answer_start", start}};
}

std::string squad(const json& paragraphs) {
  return json{{"version", "2"}, {"data", {{{"title", "T"}, {"paragraphs", paragraphs}}}}}.dump();
}

class Questions : public testing::Test {
 protected:
  QuestionTexts read(const std::string& name, const std::string& text) const {
    return read_questions({folder_.file(name, text)});
  }
  std::shared_ptr<QuestionSamples> open(const json& paragraphs, QuestionOptions options = {}) const {
    if (options.sequence_length == 0) options.sequence_length = 12;
    return std::make_shared<QuestionSamples>(read("squad.json", squad(paragraphs)), encoder_, options,
                                             "q.json");
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  QuestionEncoder encoder_ = character_encoder();
  test::TemporaryFolder folder_;
};

TEST_F(Questions, NameThePlaceAndWhatIsWrongInABrokenFile) {
  const json good = {{"id", "1"},
                     {"context", "äb c"},
                     {"question", "q"},
                     {"answers", {{"text", {"b c"}}, {"answer_start", {1}}}}};
  const auto with = [&](const char* key, const json& value) {
    json line = good;
    line[key] = value;
    return line.dump();
  };
  json without = good;
  without.erase("context");
  const auto answers = [&](const json& texts, const json& starts) {
    return with("answers", {{"text", texts}, {"answer_start", starts}});
  };
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"{\"id\": ", "not valid JSON"},
      {"[1]", "an array"},
      {without.dump(), "no \"context\""},
      {"{\"context\": \"a\", \"question\": \"q\", \"answers\": []}", "no \"id\""},
      {with("question", 3), "question \"1\": \"question\" is"},
      {with("question", " "), "\"question\" is empty"},
      {with("context", ""), "\"context\" is empty"},
      {with("answers", "b c"), "\"answers\" is"},
      {answers({"b c"}, {1, 2}), "1 answers, but \"answer_start\" 2"},
      {answers({"b c"}, {"1"}), "\"answer_start\" is"},
      {answers({"b c"}, {-1}), "\"answer_start\" is -1"},
      {answers({""}, {1}), "no text"},
      {answers({"b c"}, {2}), "its \"answer_start\" 2"},
      {answers({"b c"}, {9}), "has ended"},
      {with("is_impossible", true), "\"is_impossible\" is true, but \"answers\" has some"},
      {with("is_impossible", 1), "or false"},
      {with("id", "0"), "same \"id\""},
      {with("id", nullptr), "\"id\" is null"},
      {"{\"id\": \"\xff\"}", "not valid JSON"},
  };
  json first = good;
  first["id"] = "0";
  for (const auto& [line, says] : broken) {
    const std::string text = first.dump() + "\n\n" + line + "\n";
    EXPECT_ERROR(read("a.jsonl", text), WEFT_INVALID_ARGUMENT, in("a.jsonl:3: "), says);
  }
  EXPECT_ERROR(read("b.json", "{\n"), WEFT_INVALID_ARGUMENT, "b.json: ", "not valid JSON");
  EXPECT_ERROR(read("b.json", "{\"version\": 1}"), WEFT_INVALID_ARGUMENT, "b.json", "\"data\"");
  EXPECT_ERROR(read("b.json", "{\"data\": 1}"), WEFT_INVALID_ARGUMENT, "\"data\" is", "integer");
  EXPECT_ERROR(read("b.json", squad({{{"context", "a"}}})), WEFT_INVALID_ARGUMENT,
               "b.json: paragraph 1 of \"T\"", "\"qas\"");
  EXPECT_ERROR(
      read("b.json",
           squad({{{"context", "a b"}, {"qas", {question("x", "q", json::array({answer("b", 1)}))}}}})),
      WEFT_INVALID_ARGUMENT, "b.json: paragraph 1 of \"T\": question \"x\"", "answer \"b\"");
  EXPECT_ERROR(read("b.json", squad(json::array())), WEFT_INVALID_ARGUMENT, "no questions");
  EXPECT_ERROR(read("empty.jsonl", "\n"), WEFT_INVALID_ARGUMENT, "empty.jsonl", "no questions");
  EXPECT_ERROR(read("b.jsonl", "[" + good.dump() + ",\n7]"), WEFT_INVALID_ARGUMENT, "b.jsonl:2: element 2",
               "an integer");
  EXPECT_ERROR(read("b.json", "[" + good.dump() + ",\n{\"paragraphs\": [7]}]"), WEFT_INVALID_ARGUMENT,
               "b.json:2: element 2", "paragraph 1 of article 2");
  EXPECT_ERROR(read("b.json", "[" + good.dump()), WEFT_INVALID_ARGUMENT, "b.json:1: ", "no end");
  EXPECT_ERROR(read("a.txt", "text"), WEFT_INVALID_ARGUMENT, "a.txt", "\"paragraphs\"", "\"answer_start\"");
  EXPECT_ERROR(read_questions({in("absent.json")}), WEFT_NOT_FOUND, "absent.json");
  test::TemporaryFolder texts;
  texts.file("README.md", "none");
  EXPECT_ERROR(read_questions({texts.path()}), WEFT_NOT_FOUND, "no file", ".json, ");
}

TEST_F(Questions, AreReadInEachForm) {
  const std::string context = "Zoë — a naïve answer.";
  const json plain = question("a", " Who? ", {answer("naïve answer", 8), answer("naïve", 8)});
  const json line = {{"id", 7},
                     {"context", context},
                     {"question", "What?"},
                     {"answers", {{"text", {"naïve"}}, {"answer_start", {8}}}}};
  json impossible = question("b", "Why?");
  impossible["is_impossible"] = true;
  for (const std::string& text :
       {squad({{{"context", context}, {"qas", {plain, impossible}}}}),
        // as with an indent
        json::parse(squad({{{"context", context}, {"qas", {plain, impossible}}}})).dump(1) + "\n"}) {
    const QuestionTexts texts = read("a.json", text);
    ASSERT_EQ(texts.questions.size(), 2u);
    EXPECT_EQ(texts.questions[0].id, "a");
    EXPECT_EQ(texts.questions[0].text, "Who?");
    ASSERT_EQ(texts.questions[0].answers.size(), 2u);
    EXPECT_EQ(texts.questions[0].answers[0].begin, context.find("naïve"));
    EXPECT_EQ(texts.questions[0].answers[1].text, "naïve");
    EXPECT_TRUE(texts.questions[1].answers.empty());
    ASSERT_EQ(texts.contexts.size(), 1u);
    EXPECT_EQ(texts.contexts[0].text, context);
  }
  json other = line;
  other["id"] = "8";
  other["context"] = "naïve: naïve";
  other["answers"] = json::array({answer("naïve", 7)});
  const std::string lines = "\n" + line.dump() + "\r\n" + other.dump();
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"a.jsonl", lines},
                                                        {"a.json", lines.substr(1)},
                                                        {"a.JSON", lines.substr(1)},
                                                        {"a.json", json::array({line, other}).dump()},
                                                        {"a.json", json::array({line, other}).dump(1)},
                                                        {"a.jsonl", json::array({line, other}).dump()},
                                                        {"a.jsonl", json::array({line, other}).dump(1)},
                                                        {"a.json", json{{"data", {line, other}}}.dump()}}) {
    const QuestionTexts texts = read(name, text);
    ASSERT_EQ(texts.questions.size(), 2u) << text;
    EXPECT_EQ(texts.questions[0].id, "7");
    EXPECT_EQ(texts.questions[1].answers.at(0).begin, std::string("naïve: ").size());
    EXPECT_EQ(texts.questions[1].context, 1u);
  }
}

TEST_F(Questions, HaveContextsByTheirIndexInEachOfSeveralSources) {
  const auto one = [](const std::string& id, const std::string& context) {
    return json{{"id", id}, {"context", context}, {"question", "q"}, {"answers", json::array()}}.dump() +
           "\n";
  };
  folder_.file("a.jsonl", one("1", "x") + one("2", "y") + one("3", "x"));
  folder_.file("b.jsonl", one("4", "y") + one("5", "z"));
  folder_.file("notes.txt", "no questions");
  const QuestionTexts both = read_questions({in("a.jsonl"), in("b.jsonl")});
  std::vector<int64_t> indices;
  for (const Question& each : both.questions) indices.push_back(both.contexts[each.context].index);
  EXPECT_EQ(indices, (std::vector<int64_t>{0, 1, 0, 0, 1}));
  // As one source, the files follow each other.
  std::vector<std::string> notes;
  const auto note = [&](const std::string& text) { notes.push_back(text); };
  EXPECT_EQ(read_questions({folder_.path()}, note).contexts.size(), 3u);
  EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr(".ndjson: notes.txt")));
  EXPECT_EQ(read_questions({in("*.jsonl")}).questions.size(), 5u);
  EXPECT_ERROR(read_questions({in("a.jsonl"), folder_.path()}), WEFT_INVALID_ARGUMENT, "question \"1\"",
               "same");
}

// 12 positions: a class token, the question, 2 tokens between, the context, and a token behind it.
TEST_F(Questions, AreWindowsWithTheLabelsOfTheFirstAnswer) {
  const json paragraphs = {{{"context", "ab cd efghij"},
                            {"qas",
                             {question("1", "qr", {answer(" cd ", 2), answer("a", 0)}), question("2", "q"),
                              question("3", "q", json::array({answer("ij", 10)}))}}}};
  QuestionOptions options;
  options.overlap = 2;
  options.token_types = true;
  const auto samples = open(paragraphs, options);
  // Of 10 tokens of the context a window has 6, beside a question of one token 7.
  ASSERT_EQ(samples->size(), 2 + 2 + 2);
  EXPECT_TRUE(samples->has_impossible());
  const Batch batch = samples->get({0, 1, 3, 5});
  EXPECT_EQ(
      values(batch.at("input_ids")),
      joined({{kClass, 'q', 'r', kBetween, kBetween, 'a', 'b', 'c', 'd', 'e', 'f', kBehind},
              {kClass, 'q', 'r', kBetween, kBetween, 'e', 'f', 'g', 'h', 'i', 'j', kBehind},
              {kClass, 'q', kBetween, kBetween, 'f', 'g', 'h', 'i', 'j', kBehind, kPadding, kPadding},
              {kClass, 'q', kBetween, kBetween, 'f', 'g', 'h', 'i', 'j', kBehind, kPadding, kPadding}}));
  const Ids full = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, padded = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
  EXPECT_EQ(values(batch.at("attention_mask")), joined({full, full, padded, padded}));
  EXPECT_EQ(values(batch.at("token_type_ids")), joined({{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                                                        {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                                                        {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0},
                                                        {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}}));
  EXPECT_EQ(values(batch.at("start_positions")), (Ids{7, 0, 0, 7}));
  EXPECT_EQ(values(batch.at("end_positions")), (Ids{8, 0, 0, 8}));
  EXPECT_EQ(samples->text_of(0, 2, 4), "cd e");
  EXPECT_FALSE(open(paragraphs)->get({0}).has("token_type_ids"));

  encoder_.pads_left = true;
  const auto left = open(paragraphs, options);
  const Batch last = left->get({3, 5});
  EXPECT_EQ(values(last.at("input_ids").narrow(0, 0, 1)),
            (Ids{kPadding, kPadding, kClass, 'q', kBetween, kBetween, 'f', 'g', 'h', 'i', 'j', kBehind}));
  EXPECT_EQ(values(last.at("attention_mask").narrow(0, 0, 1)), (Ids{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(values(last.at("start_positions")), (Ids{2, 9}));
  EXPECT_EQ(values(last.at("end_positions")), (Ids{2, 10}));
  EXPECT_EQ(left->window(5).first, 2);
  EXPECT_EQ(left->window(5).position, 6);
}

TEST_F(Questions, NeedRoomForTheContext) {
  const json paragraphs = {
      {{"context", "abcdefghij"}, {"qas", {question("long", "question"), question("2", "q")}}}};
  EXPECT_ERROR(open(paragraphs), WEFT_INVALID_ARGUMENT, "q.json", "question \"long\" has 8 tokens", "adds 4",
               "leaves 0 of --sequence-length 12", "at least 1");
  QuestionOptions options;
  options.sequence_length = 16;
  options.overlap = 4;
  EXPECT_ERROR(open(paragraphs, options), WEFT_INVALID_ARGUMENT, "leaves 4 of", "the 4", "smaller --overlap");
  options.overlap = 3;
  EXPECT_EQ(open(paragraphs, options)->size(), 7 + 1);
  options.overlap = -1;
  EXPECT_ERROR(open(paragraphs, options), WEFT_INVALID_ARGUMENT, "--overlap is -1");
  options.overlap.reset();
  options.sequence_length = 18;
  // A third of 18 is 6, which is all that the first question leaves.
  EXPECT_ERROR(open(paragraphs, options), WEFT_INVALID_ARGUMENT, "the 6");
  // A context that fits needs no overlap.
  EXPECT_EQ(open({{{"context", "abcd"}, {"qas", {question("long", "question")}}}}, options)->size(), 1);
  options.vocabulary = kPadding;
  EXPECT_ERROR(open(paragraphs, options), WEFT_INVALID_ARGUMENT, "test/tokenizer.json", "up to 303");
  EXPECT_ERROR(open(paragraphs, {.part = Part::kHeldOut}), WEFT_INVALID_ARGUMENT, "--held-out");
}

TEST_F(Questions, AreNamedIfTheTokenizerRefusesThem) {
  const auto refuse = [](std::string_view text) {
    if (text.find('!') != text.npos) throw Error(WEFT_INVALID_ARGUMENT, "no token spells \"!\"");
    return encode_characters(text);
  };
  encoder_.encode_with_spans = refuse;
  encoder_.encode = [refuse](std::string_view text) { return refuse(text).ids; };
  EXPECT_ERROR(open({{{"context", "ab!"}, {"qas", {question("1", "q")}}}}), WEFT_INVALID_ARGUMENT, "q.json",
               "context \"ab!\"", "no token");
  EXPECT_ERROR(open({{{"context", "ab"}, {"qas", {question("1", "q"), question("2", "!")}}}}),
               WEFT_INVALID_ARGUMENT, "q.json: question \"2\"", "no token");
}

TEST_F(Questions, TellWhatIsCut) {
  const std::string long_question(70, 'q');
  const json paragraphs = {{{"context", "abcdefghij"},
                            {"qas",
                             {question("1", long_question, json::array({answer("a", 0)})),
                              question("2", "q", json::array({answer("abcdefgh", 0)}))}}}};
  std::vector<std::string> notes;
  QuestionOptions options;
  options.sequence_length = kMostQuestionTokens + 4 + 5;
  options.overlap = 1;
  options.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(open(paragraphs, options)->size(), 3 + 1);
  EXPECT_THAT(notes, testing::ElementsAre("q.json: 1 of 2 questions cut to 64 tokens"));
  notes.clear();
  options.sequence_length = 12;
  open({{{"context", "abcdefghij"}, {"qas", {question("2", "q", json::array({answer("abcdefgh", 0)}))}}}},
       options);
  EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr("1 of 1 questions")));
}

TEST_F(Questions, AreInTheSamePartIfTheyShareAContext) {
  json paragraphs = json::array();
  for (int i = 0; i < 40; ++i)
    paragraphs.push_back(
        {{"context", fmt::format("c {}", i)},
         {"qas", {question(fmt::format("{} a", i), "q"), question(fmt::format("{} b", i), "r")}}});
  const auto ids = [&](Part part, int64_t seed, const json& from) {
    std::multiset<std::string> found;
    const auto samples = open(from, {.held_out = 0.3, .part = part, .seed = seed});
    for (const Question& each : samples->questions()) found.insert(each.id);
    return found;
  };
  const std::multiset<std::string> held_out = ids(Part::kHeldOut, 1, paragraphs),
                                   train = ids(Part::kTraining, 1, paragraphs);
  EXPECT_EQ(held_out.size() + train.size(), 80u);
  EXPECT_GT(held_out.size(), 8u);
  EXPECT_LT(held_out.size(), 44u);
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(held_out.count(fmt::format("{} a", i)), held_out.count(fmt::format("{} b", i)));
  EXPECT_NE(ids(Part::kHeldOut, 2, paragraphs), held_out);
  // More contexts behind them change nothing.
  json more = paragraphs;
  more.push_back({{"context", "more"}, {"qas", {question("new", "q")}}});
  std::multiset<std::string> again = ids(Part::kHeldOut, 1, more);
  again.erase("new");
  EXPECT_EQ(again, held_out);
  EXPECT_ERROR(open(json::array({paragraphs[0]}), {.held_out = 1e-9, .part = Part::kHeldOut}),
               WEFT_INVALID_ARGUMENT, "its 1 contexts", "held-out part");
}

}  // namespace
}  // namespace weft::data

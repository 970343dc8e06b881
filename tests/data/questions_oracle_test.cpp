// Samples of questions and answers to them, against transformers' run_qa.py and SQuAD's script.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/text_fixture.hpp"
#include "evaluation/answer_scores.hpp"
#include "evaluation/answer_search.hpp"
#include "questions/open_questions.hpp"
#include "support/oracle_python.hpp"

namespace weft::data {
namespace {

using nlohmann::json;

class QuestionsOracle : public testing::Test {
 protected:
  void SetUp() override {
    WEFT_NEEDS_ORACLE();
    const std::string command = test::oracle_python() + " " WEFT_QUESTIONS_ORACLE " " + folder_.path();
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  json read(const std::string& name) const {
    std::ifstream file(in(name));
    return json::parse(file);
  }
  std::shared_ptr<QuestionSamples> open(const std::string& kind, const json& expected) const {
    QuestionOptions options;
    options.sequence_length = expected.at("length");
    options.overlap = expected.at("overlap").get<int64_t>();
    options.token_types = true;
    const std::string path = kind == "word_piece" ? in("questions.json") : in("lines.jsonl");
    return open_question_samples({path}, Tokenizer::open(in(kind)), options);
  }

  test::TemporaryFolder folder_;
};

TEST_F(QuestionsOracle, SamplesAreThoseOfTransformers) {
  for (const std::string kind : {"word_piece", "plain", "left", "left_cut"}) {
    const json expected = read(kind + "/expected.json");
    const auto samples = open(kind, expected);
    const json& wanted = expected.at("samples");
    ASSERT_EQ(samples->size(), static_cast<int64_t>(wanted.size())) << kind;
    for (int64_t i = 0; i < samples->size(); ++i) {
      const json& sample = wanted[static_cast<size_t>(i)];
      const Batch batch = samples->get({i});
      for (const char* name : {"input_ids", "attention_mask", "token_type_ids"})
        EXPECT_EQ(values(batch.at(name)), sample.at(name).get<Ids>()) << kind << " " << i << " " << name;
      EXPECT_EQ(values(batch.at("start_positions")), Ids{sample.at("start").get<int64_t>()})
          << kind << " " << i;
      EXPECT_EQ(values(batch.at("end_positions")), Ids{sample.at("end").get<int64_t>()}) << kind << " " << i;
      EXPECT_EQ(samples->window(i).question, sample.at("question").get<int64_t>());
    }
  }
}

TEST_F(QuestionsOracle, AnswersAreThoseOfTransformers) {
  for (const std::string kind : {"word_piece", "plain", "left", "left_cut"}) {
    const json expected = read(kind + "/expected.json");
    const auto samples = open(kind, expected);
    weft::AnswerSearch search(*samples, expected.at("most_tokens"));
    const auto rows = static_cast<int64_t>(expected.at("logits").size());
    std::vector<double> all;
    for (const json& sample : expected.at("logits"))
      for (const json& side : sample)
        for (const json& logit : side) all.push_back(logit);
    const at::Tensor logits = at::tensor(all, at::kDouble).view({rows, 2, -1});
    // In batches that cut through the windows of a question.
    for (int64_t row = 0; row < rows; row += 7) {
      const at::Tensor some = logits.narrow(0, row, std::min<int64_t>(7, rows - row));
      search.add(some.select(1, 0), some.select(1, 1));
    }
    const std::vector<std::string> found = search.texts();
    ASSERT_EQ(found.size(), expected.at("answers").size());
    int empty = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i], expected.at("answers")[i].get<std::string>()) << kind << " " << i;
      empty += found[i].empty() ? 1 : 0;
    }
    EXPECT_GT(empty, 0);
    EXPECT_LT(empty, static_cast<int>(found.size()) / 2);
  }
}

TEST_F(QuestionsOracle, ScoresAreThoseOfSquad) {
  double exact = 0, f1 = 0;
  const json scores = read("scores.json");
  for (const json& each : scores) {
    const std::string found = each.at("found");
    EXPECT_EQ(weft::normal_answer(found), each.at("normal").get<std::string>()) << found;
    const weft::AnswerScore score = weft::score_answer(found, each.at("right"));
    EXPECT_EQ(score.exact_match, each.at("exact_match").get<double>()) << each;
    EXPECT_NEAR(score.f1, each.at("f1").get<double>(), 1e-12) << each;
    exact += score.exact_match;
    f1 += score.f1;
  }
  // Otherwise it shows little.
  EXPECT_GT(exact, 50);
  EXPECT_GT(f1, exact + 1);
  EXPECT_LT(f1, 0.95 * static_cast<double>(scores.size()));
}

// Derived by hand from the definitions of SQuAD.
TEST(AnswerScores, AreOfWordsWithoutCasePunctuationAndArticles) {
  EXPECT_EQ(normal_answer(" The  quick, \"brown\"\tfox-trot; an a_b theatre."),
            "quick brown foxtrot ab theatre");
  EXPECT_EQ(score_answer("The Cat!", {"a dog", "cat"}).exact_match, 1);
  const weft::AnswerScore part = score_answer("in the old town", {"old city hall", "old town of Rome"});
  EXPECT_EQ(part.exact_match, 0);
  // "in old town" has 2 of its 3 words in "old town of rome", which has 4.
  EXPECT_NEAR(part.f1, 2 * 2.0 / (3 + 4), 1e-12);
  // Words count as often as they come.
  EXPECT_NEAR(score_answer("no no no", {"no no"}).f1, 2 * 2.0 / (3 + 2), 1e-12);
  EXPECT_EQ(score_answer("", {}).exact_match, 1);
  EXPECT_EQ(score_answer("", {}).f1, 1);
  EXPECT_EQ(score_answer("x", {}).f1, 0);
  EXPECT_EQ(score_answer("", {"x"}).exact_match, 0);
}

}  // namespace
}  // namespace weft::data

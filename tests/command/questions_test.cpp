// `weft train` and `weft evaluate` on files of questions: exact match and F1 of the answers' texts, the same
// on any ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "command/command.hpp"
#include "command/word_tokenizer.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kAnimals[] = {"fox", "cat", "dog", "owl", "bear", "wolf", "crow", "hare"};
constexpr const char* kColors[] = {"red", "gray", "white", "brown", "black", "green", "blue", "gold"};
constexpr const char* kCities[] = {"Rome", "Oslo", "Bern", "Kyiv", "Lima", "Cairo", "Quito", "Delhi"};
constexpr int kContexts = 8, kQuestions = 5 * kContexts;

// Returns a tokenizer of the words of the questions.
json question_tokenizer() {
  std::vector<std::string> words = {".",    "?",    "the",   "in",    "lives", "where",
                                    "does", "live", "which", "color", "has"};
  for (const auto& group : {kAnimals, kColors, kCities})
    for (int i = 0; i < 8; ++i) words.emplace_back(group[i]);
  return word_tokenizer(words);
}

// Returns paragraphs of SQuAD: each context has two animals, with two questions on each and one on another
// animal.
json paragraphs() {
  json all = json::array();
  for (int i = 0; i < kContexts; ++i) {
    std::string context;
    json questions = json::array();
    const auto ask = [&](const std::string& id, const std::string& text, const json& answers) {
      questions.push_back({{"id", fmt::format("{}-{}", i, id)},
                           {"question", text},
                           {"answers", answers},
                           {"is_impossible", answers.empty()}});
    };
    for (int j = 0; j < 2; ++j) {
      const std::string animal = kAnimals[(i + 3 * j) % 8], color = kColors[(3 * i + j) % 8],
                        city = kCities[(5 * i + 2 * j) % 8];
      context += fmt::format("{}The {} {} lives in {}.", j > 0 ? " " : "", color, animal, city);
      const auto answer = [&](const std::string& text) {
        return json::array({{{"text", text}, {"answer_start", context.find(text)}}});
      };
      ask(animal + "-city", fmt::format("Where does the {} live?", animal), answer(city));
      ask(animal + "-color", fmt::format("Which color has the {}?", animal), answer(color));
    }
    ask("none", fmt::format("Where does the {} live?", kAnimals[(i + 1) % 8]), json::array());
    all.push_back({{"context", context}, {"qas", questions}});
  }
  return all;
}

std::string squad(const json& paragraphs) {
  return json{{"version", "v2.0"}, {"data", {{{"title", "Animals"}, {"paragraphs", paragraphs}}}}}.dump();
}

class QuestionCommand : public CommandTest {
 protected:
  void SetUp() override {
    fs::create_directories(in("bert"));
    folder_.file("bert/config.json", R"({"model_type": "bert", "architectures": ["BertForQuestionAnswering"],
        "vocab_size": 39, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 24, "pad_token_id": 0, "initializer_range": 0.2,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})");
    folder_.file("bert/tokenizer.json", question_tokenizer().dump());
    folder_.file("bert/tokenizer_config.json", R"({"pad_token": "[PAD]", "cls_token": "[CLS]"})");
    folder_.file("squad.json", squad(paragraphs()));
  }
  // Windows of 20 tokens hold about 11 of the 14 tokens of a context.
  Words with_windows(Words words) const {
    return words + Words{"--data", in("squad.json"), "--sequence-length", "20", "--overlap", "4"};
  }
  Words train(const Words& more) const {
    return with_windows({"train", "--model", in("bert"), "--batch-size", "16", "--lr", "0.003", "--strategy",
                         "none"}) +
           more;
  }
  // Copies a model that knows most answers to in("out"). Trains it once for all tests of the process.
  void copy_model_with_answers() const {
    static const TemporaryFolder folder;
    static const bool trained = [&] {
      expect_success(train({"--steps", "100", "--output", folder.path() + "/out"}));
      return true;
    }();
    ASSERT_TRUE(trained);
    fs::copy(folder.path() + "/out", in("out"), fs::copy_options::recursive);
  }
  json evaluate(const Words& more = {}) const {
    return json::parse(
        expect_success(
            with_windows({"evaluate", "--model", in("out"), "--json", "--predictions", in("p.json")}) + more)
            .out);
  }
  json predictions() const {
    std::ifstream file(in("p.json"));
    return json::parse(file);
  }
};

TEST_F(QuestionCommand, RefusesWhatHasNoEffectAndDataThatItCannotRead) {
  const Words evaluate = with_windows({"evaluate", "--model", in("bert"), "--allow-missing"});
  const Words train = this->train({"--steps", "1"});
  EXPECT_TRUE(
      refuses(train + Words{"--packing", "none"}, 1, {"--packing is for text", "BertForQuestionAnswering"}));
  EXPECT_TRUE(refuses(train + Words{"--long-documents", "drop"}, 1, {"--long-documents"}));
  EXPECT_TRUE(refuses(train + Words{"--skip-broken-lines"}, 1, {"--skip-broken-lines"}));
  EXPECT_TRUE(refuses(train + Words{"--objective", "causal_lm"}, 1, {"--objective is for text"}));
  EXPECT_TRUE(refuses(train + Words{"--mlm-probability", "0.2"}, 1, {"--mlm-probability"}));
  EXPECT_TRUE(refuses(train + Words{"--flip"}, 1, {"--flip is for images"}));
  EXPECT_TRUE(refuses(train + Words{"--held-out", "1.5"}, 1, {"--held-out is 1.5"}));
  EXPECT_TRUE(
      refuses(evaluate + Words{"--by-document"}, 1, {"--by-document measures the documents of text"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--word-error-rate"}, 1, {"--word-error-rate is for text"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--part", "train"}, 1, {"--part needs --held-out"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--max-answer-tokens", "0"}, 1, {"--max-answer-tokens is 0"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--predictions", ""}, 1, {"--predictions is empty"}));
  for (const char* ranks : {"1", "2"})
    EXPECT_TRUE(refuses(evaluate + Words{"--predictions", in("none/p.json"), "-n", ranks}, 1,
                        {"--predictions " + in("none/p.json"), "cannot write there"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--tokenizer", in("none")}, 1, {in("none")}));
  EXPECT_TRUE(refuses({"train", "--model", in("bert"), "--data", in("squad.json") + "=0.5"}, 1,
                      {"a weight is for text", "\"=0.5\""}));
  EXPECT_TRUE(refuses({"train", "--model", in("bert"), "--data", in("squad.json"), "--sequence-length", "25"},
                      1, {"--sequence-length is 25", "at most 24 positions"}));
  EXPECT_TRUE(refuses({"train", "--model", in("bert"), "--data", data_}, 1, {data_, "\"paragraphs\""}));
  fs::remove(in("bert/tokenizer.json"));
  EXPECT_TRUE(refuses(train, 1, {"no tokenizer in the folder of BertForQuestionAnswering", "--tokenizer"}));
  // Flags of questions with other data.
  const Words text = CommandTest::train({"--steps", "1"});
  EXPECT_TRUE(refuses(text + Words{"--overlap", "8"}, 1, {"--overlap is for questions", "is read as text"}));
  for (const Words& more : {Words{"--overlap", "8", "--by-document"}, Words{"--max-answer-tokens", "8"},
                            Words{"--predictions", in("p.json")}})
    EXPECT_TRUE(refuses(Words{"evaluate", "--model", config_, "--allow-missing", "--data", data_} + more, 1,
                        {more[0] + " is for questions"}));
}

TEST_F(QuestionCommand, LearnsAnswersAndMeasuresTheirText) {
  copy_model_with_answers();
  const json found = evaluate();
  EXPECT_EQ(found.at("questions"), kQuestions);
  EXPECT_EQ(found.at("samples"), 2 * kQuestions);
  EXPECT_EQ(found.at("labels"), 2 * kQuestions);
  const json answers = predictions();
  ASSERT_EQ(answers.size(), static_cast<size_t>(kQuestions));
  double right = 0, empty = 0;
  for (const json& paragraph : paragraphs())
    for (const json& question : paragraph.at("qas")) {
      const std::string answer = answers.at(question.at("id").get<std::string>());
      const json& labels = question.at("answers");
      right += answer == (labels.empty() ? "" : labels[0].at("text").get<std::string>()) ? 1 : 0;
      empty += answer.empty() ? 1 : 0;
      EXPECT_THAT(paragraph.at("context").get<std::string>(), testing::HasSubstr(answer));
    }
  EXPECT_GT(right, 20);
  EXPECT_LT(right, kQuestions);  // otherwise it shows little
  EXPECT_GT(empty, 4);
  // A point behind an answer, and "the" before it, count as right.
  EXPECT_GE(found.at("exact_match").get<double>() + 1e-12, right / kQuestions);
  EXPECT_LE(found.at("exact_match").get<double>(), (right + 6) / kQuestions);
  EXPECT_GE(found.at("f1").get<double>() + 1e-12, found.at("exact_match").get<double>());

  evaluate({"--max-answer-tokens", "1"});
  const json shorter = predictions();
  EXPECT_NE(shorter, answers);
  for (const auto& [id, answer] : shorter.items())
    EXPECT_EQ(answer.get<std::string>().find(' '), std::string::npos) << id;

  const Output line =
      expect_success(with_windows({"evaluate", "--model", in("out"), "--metrics", in("m.json")}));
  EXPECT_THAT(line.out, testing::HasSubstr(fmt::format(
                            "exact_match {:.4f}  f1 {:.4f}  (80 labels, 80 samples, 40 questions)",
                            found.at("exact_match").get<double>(), found.at("f1").get<double>())));
  EXPECT_EQ(read_metrics(in("m.json")).at(0), found);
}

TEST_F(QuestionCommand, MeasuresTheSameOnRanksAndUnderEveryStrategy) {
  copy_model_with_answers();
  const json expected = evaluate();
  const json answers = predictions();
  for (const Words& more :
       {Words{"--batch-size", "3"}, Words{"-n", "3", "--batch-size", "3"}, Words{"-n", "2", "--workers", "1"},
        Words{"-n", "2", "--strategy", "torch_fsdp"}, Words{"-n", "2", "-o", "tp_size=2"},
        Words{"-n", "2", "-o", "pp_size=2"}, Words{"-n", "4", "-o", "pp_size=2", "-o", "num_microbatches=3"},
        Words{"-n", "4", "-o", "tp_size=2", "-o", "pp_size=2", "-o", "microbatch_size=1"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "sp_size=2", "-o",
              "enable_sequence_parallelism=true"}}) {
    fs::remove(in("p.json"));
    const json found = evaluate(more);
    for (const char* same : {"exact_match", "f1", "questions", "samples", "labels"})
      EXPECT_EQ(found.at(same), expected.at(same)) << testing::PrintToString(more);
    EXPECT_NEAR(found.at("loss"), expected.at("loss"), 1e-5) << testing::PrintToString(more);
    EXPECT_EQ(predictions(), answers) << testing::PrintToString(more);
  }
  EXPECT_TRUE(refuses(with_windows({"evaluate", "--model", in("out"), "-n", "2", "-o", "tp_size=2", "-o",
                                    "parallel_output=true"}),
                      1, {"parallel_output is true"}));
}

TEST_F(QuestionCommand, EvaluationInTrainingHasTheAnswersOfTheVerb) {
  copy_model_with_answers();
  const Words answers = {"--max-answer-tokens", "2"};
  for (const Words& layout : {Words{"--strategy", "none"}, Words{"-n", "2", "--strategy", "torch_fsdp"},
                              Words{"-n", "4", "-o", "tp_size=2", "-o", "pp_size=2"},
                              Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "sp_size=2", "-o",
                                    "enable_sequence_parallelism=true"}}) {
    expect_success(with_windows({"train",
                                 "--model",
                                 in("out"),
                                 "--lr",
                                 "0.01",
                                 "--batch-size",
                                 "16",
                                 "--steps",
                                 "4",
                                 "--evaluate-every",
                                 "2",
                                 "--evaluation-data",
                                 in("squad.json"),
                                 "--keep-best",
                                 "exact_match",
                                 "--save-every",
                                 "2",
                                 "--output",
                                 in("more"),
                                 "--metrics",
                                 in("m")}) +
                   answers + layout);
    const std::vector<json> lines = read_metrics(in("m"));
    ASSERT_EQ(lines.size(), 4u);
    double best = -1;
    for (const int step : {2, 4}) {
      const json& found = lines[static_cast<size_t>(step - 1)].at("evaluation");
      const std::string folder = step == 4 ? "more" : "more/step-2";
      const json verb = json::parse(
          expect_success(with_windows({"evaluate", "--model", in(folder), "--json", "--batch-size", "16"}) +
                         answers + layout)
              .out);
      for (const char* same : {"exact_match", "f1", "loss"})
        EXPECT_EQ(found.at(same), verb.at(same)) << same << " " << testing::PrintToString(layout);
      EXPECT_GT(found.at("exact_match"), 0.1);
      EXPECT_EQ(found.contains("questions"), false);
      best = std::max(best, found.at("exact_match").get<double>());
    }
    const std::string kept = fs::read_symlink(in("more/best")).string();
    EXPECT_EQ(lines[kept == "step-2" ? 1 : 3].at("evaluation").at("exact_match"), best);
    fs::remove_all(in("more"));
    fs::remove(in("m"));
  }
  EXPECT_TRUE(refuses(train({"--steps", "1", "--max-answer-tokens", "3"}), 1,
                      {"--max-answer-tokens", "--evaluate-every"}));
}

// Without questions that have no answer, every question gets one.
TEST_F(QuestionCommand, AnswersEveryQuestionOfDataWhereAllHaveAnswers) {
  copy_model_with_answers();
  json all = paragraphs();
  for (json& paragraph : all) paragraph["qas"].erase(4);
  folder_.file("squad.json", squad(all));
  evaluate();
  const json answers = predictions();
  EXPECT_EQ(answers.size(), 4u * kContexts);
  for (const json& answer : answers) EXPECT_NE(answer, "");
}

TEST_F(QuestionCommand, ReadsJsonLinesAndHeldOutContexts) {
  copy_model_with_answers();
  const json expected = evaluate();
  std::string lines;
  for (const json& paragraph : paragraphs())
    for (const json& question : paragraph.at("qas")) {
      json texts = json::array(), starts = json::array();
      for (const json& answer : question.at("answers")) {
        texts.push_back(answer.at("text"));
        starts.push_back(answer.at("answer_start"));
      }
      lines += json{{"id", question.at("id")},
                    {"context", paragraph.at("context")},
                    {"question", question.at("question")},
                    {"answers", {{"text", texts}, {"answer_start", starts}}}}
                   .dump() +
               "\n";
    }
  folder_.file("squad.json", lines);
  EXPECT_EQ(evaluate(), expected);
  json parts = json::object();
  for (const char* part : {"train", "held-out"}) {
    const json found = evaluate({"--held-out", "0.4", "--part", part});
    const json answers = predictions();
    EXPECT_EQ(answers.size() % 5, 0u);
    EXPECT_EQ(found.at("questions"), answers.size());
    EXPECT_GT(answers.size(), 0u);
    parts.update(answers);
  }
  EXPECT_EQ(parts.size(), static_cast<size_t>(kQuestions));
  EXPECT_EQ(evaluate({"--held-out", "0.4"}), evaluate({"--held-out", "0.4", "--part", "held-out"}));
}

TEST_F(QuestionCommand, TrainsTheSameOnRanksAndKeepsTheTokenizer) {
  const auto losses = [&](const Words& more) {
    fs::remove_all(in("out"));
    expect_success(with_windows({"train", "--model", in("bert"), "--batch-size", "8", "--steps", "3",
                                 "--metrics", in("m.json"), "--output", in("out")}) +
                   more);
    EXPECT_TRUE(fs::exists(in("out/tokenizer.json")));
    std::vector<double> losses;
    for (const json& step : read_metrics(in("m.json"))) losses.push_back(step.at("loss"));
    fs::remove(in("m.json"));
    return losses;
  };
  const std::vector<double> expected = losses({"--strategy", "none"});
  ASSERT_EQ(expected.size(), 3u);
  for (const Words& more : {Words{"-n", "2"}, Words{"-n", "2", "-o", "pp_size=2"}}) {
    const std::vector<double> found = losses(more);
    ASSERT_EQ(found.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << testing::PrintToString(more);
  }
}

// Decoders, whose tokenizers add nothing to a pair and may pad on the left.
TEST_F(QuestionCommand, WorksWithEveryFamilyThatAnswersQuestions) {
  fs::create_directories(in("bytes"));
  const std::string text = folder_.file("squad.txt", read_bytes(in("squad.json")));
  expect_success({"tokenizer", "train", "--data", text, "--vocab-size", "300", "--output", in("bytes")});
  const std::vector<std::pair<std::string, std::string>> configs = {
      {"gpt2", config_json({.architecture = "GPT2ForQuestionAnswering", .vocabulary = 300, .positions = 64})},
      {"opt", R"({"model_type": "opt", "architectures": ["OPTForQuestionAnswering"], "vocab_size": 300,
          "hidden_size": 16, "ffn_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
          "max_position_embeddings": 64, "word_embed_proj_dim": 16, "pad_token_id": 1})"},
      {"bloom", R"({"model_type": "bloom", "architectures": ["BloomForQuestionAnswering"], "vocab_size": 300,
          "hidden_size": 16, "n_layer": 2, "n_head": 2, "pad_token_id": 3})"},
      {"qwen2", R"({"model_type": "qwen2", "architectures": ["Qwen2ForQuestionAnswering"], "vocab_size": 300,
          "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
          "num_key_value_heads": 1, "max_position_embeddings": 64})"}};
  for (const auto& [name, config] : configs) {
    const std::string side = name == "bloom" ? "left" : "right";
    folder_.file("bytes/tokenizer_config.json",
                 json{{"padding_side", side}, {"pad_token", "<|endoftext|>"}}.dump());
    const Words data = {"--data", in("squad.json"), "--sequence-length", "64", "--overlap", "8"};
    expect_success(Words{"train", "--model", folder_.file(name + ".json", config), "--tokenizer", in("bytes"),
                         "--steps", "2", "--strategy", "none", "--output", in(name)} +
                   data);
    const json found = json::parse(
        expect_success(Words{"evaluate", "--model", in(name), "--json", "--predictions", in("p.json")} + data)
            .out);
    EXPECT_EQ(found.at("questions"), kQuestions) << name;
    EXPECT_EQ(predictions().size(), static_cast<size_t>(kQuestions)) << name;
    EXPECT_LE(found.at("f1"), 1.0);
  }
}

}  // namespace
}  // namespace weft::test

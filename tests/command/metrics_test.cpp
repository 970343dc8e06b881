// `weft evaluate` measures what the plain definitions give on transformers' outputs (if WEFT_ORACLE_PYTHON
// names a Python that has transformers), and the same on any number of ranks and with any batch size.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "command/command.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

constexpr int64_t kSamples = 23, kLength = 10;

struct Case {
  std::string architecture;
  std::vector<std::string> metrics;
  RawTensors samples;
};

// Samples of few ids, so that answers overlap, with padding behind them.
RawTensors inputs(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> ids, mask;
  for (int64_t s = 0; s < kSamples; ++s) {
    const int64_t used = 6 + static_cast<int64_t>(random() % 5);
    for (int64_t t = 0; t < kLength; ++t) {
      ids.push_back(t < used ? 1 + static_cast<int64_t>(random() % 4) : 0);
      mask.push_back(t < used);
    }
  }
  return {{"input_ids", int64_tensor({kSamples, kLength}, ids)},
          {"attention_mask", int64_tensor({kSamples, kLength}, mask)}};
}

std::vector<int64_t> numbers(int64_t count, int64_t least, int64_t most, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(least + static_cast<int64_t>(random() % static_cast<uint32_t>(most - least + 1)));
  return values;
}

std::vector<Case> cases() {
  std::vector<Case> cases = {{"GPT2ForSequenceClassification", {"accuracy"}, inputs(1)},
                             {"GPT2ForTokenClassification", {"accuracy"}, inputs(2)},
                             {"GPT2ForQuestionAnswering", {"exact_match", "f1"}, inputs(3)}};
  std::vector<int64_t> classes = numbers(kSamples, 0, 2, 4);
  classes[5] = classes[20] = -100;
  cases[0].samples["labels"] = int64_tensor({kSamples}, classes);
  std::vector<int64_t> tags = numbers(kSamples * kLength, 0, 3, 5);
  for (int64_t& tag : tags) tag = tag == 3 ? -100 : tag;
  cases[1].samples["labels"] = int64_tensor({kSamples, kLength}, tags);
  std::vector<int64_t> begins = numbers(kSamples, -1, 5, 6), ends = numbers(kSamples, 0, 4, 7);
  for (size_t s = 0; s < begins.size(); ++s) ends[s] += std::max<int64_t>(0, begins[s]);
  begins[2] = ends[2] = kLength;  // left out
  cases[2].samples["start_positions"] = int64_tensor({kSamples}, begins);
  cases[2].samples["end_positions"] = int64_tensor({kSamples}, ends);
  return cases;
}

class Metrics : public CommandTest {
 protected:
  // Returns a model of this class that is trained a little, so that it is right sometimes. Trains it once for
  // all tests of the process.
  static std::string trained(const Case& of) {
    static const TemporaryFolder folder;
    const std::string model = folder.path() + "/" + of.architecture;
    if (std::filesystem::exists(model)) return model;
    const std::string config =
        folder.file(of.architecture + ".json",
                    config_json({.architecture = of.architecture,
                                 .vocabulary = 8,
                                 .more = std::string(R"("pad_token_id": 0, "initializer_range": 0.3,)") +
                                         (of.metrics.size() == 1 ? R"("num_labels": 3,)" : "")}));
    folder.file(of.architecture + ".safetensors", safetensors_bytes(of.samples));
    expect_success({"train", "--model", config, "--data", samples_of(model), "--batch-size", "23", "--steps",
                    "6", "--lr", "0.02", "--strategy", "none", "--output", model});
    return model;
  }
  static std::string samples_of(const std::string& model) { return model + ".safetensors"; }
  static nlohmann::json evaluate(const std::string& model, const Words& more = {}) {
    return nlohmann::json::parse(
        expect_success(Words{"evaluate", "--model", model, "--data", samples_of(model), "--json"} + more)
            .out);
  }
};

TEST_F(Metrics, AreThoseOfTransformersOutputs) {
  WEFT_NEEDS_ORACLE();
  Words words = {oracle_python(), WEFT_TRAIN_TESTS "/metrics.py"};
  for (const Case& of : cases()) words = words + Words{trained(of), samples_of(trained(of))};
  const Output oracle = launch::Process(words, {.environment = {}, .input = "", .error_fd = -1}).finish();
  ASSERT_EQ(oracle.exit_code, 0) << oracle.error;
  const nlohmann::json all_expected = nlohmann::json::parse(oracle.out);
  for (const Case& of : cases()) {
    const nlohmann::json found = evaluate(trained(of), {"--batch-size", "5"});
    const nlohmann::json& expected = all_expected.at(of.architecture);
    ASSERT_EQ(expected.size(), of.metrics.size());
    for (const std::string& name : of.metrics) {
      EXPECT_NEAR(found.at(name), expected.at(name), 1e-12) << of.architecture << " " << name;
      EXPECT_GT(found.at(name), 0.05) << of.architecture << " " << name;  // otherwise it shows little
      EXPECT_LT(found.at(name), 0.99) << of.architecture << " " << name;
    }
  }
}

// 23 samples in batches of 6 are 6, 6, 6 and 5; on 4 ranks, batches of 8, of which the last has 7; on 3 ranks
// in batches of 3, the last has 2 samples and a stand-in.
TEST_F(Metrics, AreTheSameOnRanksAndInBatchesOfAnySize) {
  for (const Case& of : cases()) {
    const std::string model = trained(of);
    const nlohmann::json expected = evaluate(model, {"--batch-size", "23"});
    for (const Words& more : {Words{"--batch-size", "6"}, Words{"-n", "2", "--batch-size", "4"},
                              Words{"-n", "4"}, Words{"-n", "3", "--batch-size", "3"},
                              Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"},
                              Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "sp_size=2", "-o",
                                    "enable_sequence_parallelism=true"}}) {
      const nlohmann::json found = evaluate(model, more);
      EXPECT_FALSE(found.contains("perplexity"));  // exp of this loss is none
      EXPECT_EQ(found.at("labels"), expected.at("labels"));
      for (const std::string& name : of.metrics)
        EXPECT_NEAR(found.at(name), expected.at(name), 1e-14) << testing::PrintToString(more);
    }
  }
}

// What BERT predicts of masked tokens and of the next sentence, from the logits that `weft forward` writes.
class PreTrainingMetrics : public Metrics {
 protected:
  // Returns samples of 9 ids with a few labels; those of pairs, too, for BertForPreTraining.
  static RawTensors samples(bool pairs) {
    RawTensors samples = inputs(8);
    std::vector<int64_t> labels = numbers(kSamples * kLength, 0, 7, 9);
    // Two tensor-parallel ranks have the classes 0 to 4 and 5 to 8.
    for (int64_t& label : labels) label = label > 4 ? -100 : 8 - label;
    samples["labels"] = int64_tensor({kSamples, kLength}, labels);
    if (pairs) samples["next_sentence_label"] = int64_tensor({kSamples}, numbers(kSamples, 0, 1, 10));
    return samples;
  }
  // Trains a model of this class for a few steps.
  void train(const std::string& architecture, const RawTensors& samples) const {
    const std::string config = folder_.file(
        "bert.json", R"({"model_type": "bert", "architectures": [")" + architecture + R"("], "vocab_size": 9,
        "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
        "max_position_embeddings": 16, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})");
    folder_.file("model.safetensors", safetensors_bytes(samples));
    RawTensors unlabelled = samples;
    std::erase_if(unlabelled, [](const auto& item) { return item.first.find("label") != std::string::npos; });
    folder_.file("unlabelled.safetensors", safetensors_bytes(unlabelled));
    expect_success({"train", "--model", config, "--data", in("model.safetensors"), "--batch-size", "23",
                    "--steps", "8", "--lr", "0.02", "--strategy", "none", "--output", in("model")});
    expect_success({"forward", "--model", in("model"), "--inputs", in("unlabelled.safetensors"), "--output",
                    in("logits.safetensors")});
  }
  // Returns the share of labels with the largest logit.
  double share(const std::string& output, const RawTensor& labels) const {
    const std::vector<float> logits = float_values(read_safetensors(in("logits.safetensors")).at(output));
    const size_t count = labels.bytes.size() / sizeof(int64_t), classes = logits.size() / count;
    double right = 0, counted = 0;
    for (size_t i = 0; i < count; ++i) {
      int64_t label = 0;
      std::memcpy(&label, labels.bytes.data() + i * sizeof(label), sizeof(label));
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * classes);
      counted += label >= 0;
      right += std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row == label;
    }
    return right / counted;
  }
};

TEST_F(PreTrainingMetrics, AreThoseOfTheLogitsOnAnyRanks) {
  for (const bool pairs : {false, true}) {
    const RawTensors given = samples(pairs);
    train(pairs ? "BertForPreTraining" : "BertForMaskedLM", given);
    std::map<std::string, double> expected;
    expected["masked_lm_accuracy"] = share(pairs ? "prediction_logits" : "logits", given.at("labels"));
    if (pairs)
      expected["next_sentence_accuracy"] = share("seq_relationship_logits", given.at("next_sentence_label"));
    const Words hybrid = {"-n", "2", "--strategy", "hybrid_parallel"},
                // Otherwise the first rank has all of so few tokens.
        split = hybrid + Words{"-o", "tp_size=2", "-o", "make_vocab_size_divisible_by=1"};
    for (const Words& more :
         {Words{}, Words{"--batch-size", "5"}, Words{"-n", "2", "--batch-size", "4"}, split,
          split + Words{"-o", "parallel_output=false"}, hybrid + Words{"-o", "pp_size=2"},
          hybrid + Words{"-o", "sp_size=2", "-o", "enable_sequence_parallelism=true", "-o",
                         "sequence_parallelism_mode=ring_attn"}}) {
      const nlohmann::json found = evaluate(in("model"), more);
      EXPECT_FALSE(found.contains("accuracy"));
      for (const auto& [name, value] : expected) {
        EXPECT_GT(value, 0.2) << name;  // otherwise it shows little
        EXPECT_LT(value, 0.95) << name;
        EXPECT_NEAR(found.at(name), value, 1e-12) << name << testing::PrintToString(more);
      }
    }
  }
}

TEST_F(Metrics, AreInTheLineAndInTheFile) {
  const Case of = cases()[1];
  const std::string model = trained(of);
  const nlohmann::json expected = evaluate(model);
  const Words evaluate = {"evaluate", "--model", model, "--data", samples_of(model)};
  const Output output = expect_success(evaluate + Words{"--metrics", in("m.json"), "-n", "2"});
  EXPECT_THAT(output.out, testing::HasSubstr(fmt::format("  accuracy {:.4f}  f1_macro ",
                                                         expected.at("accuracy").get<double>())));
  const auto lines = read_metrics(in("m.json"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NEAR(lines[0].at("accuracy"), expected.at("accuracy"), 1e-14);
  EXPECT_EQ(lines[0].at("labels"), expected.at("labels"));
  EXPECT_TRUE(refuses(evaluate + Words{"--metrics", in("none/m.json"), "-n", "2"}, 1,
                      {"--metrics " + in("none/m.json"), "cannot write"}));
  EXPECT_TRUE(refuses(evaluate + Words{"--metrics", ""}, 1, {"--metrics is empty"}));
}

}  // namespace
}  // namespace weft::test

// `weft evaluate` prints the loss of training on any number of ranks and with any batch size.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "command/command.hpp"
#include "support/oracle_python.hpp"

namespace weft::test {
namespace {

class Evaluate : public CommandTest {
 protected:
  void SetUp() override {
    copy_trained_model();
    folder_.file("samples.safetensors", safetensors_bytes(language_samples(7, 16)));
  }
  nlohmann::json evaluate(const std::string& data, const Words& more = {}) const {
    return nlohmann::json::parse(
        expect_success(Words{"evaluate", "--model", in("out"), "--data", in(data), "--json"} + more).out);
  }
};

TEST_F(Evaluate, IsTheLossOfTraining) {
  for (const char* data : {"data.txt", "samples.safetensors"}) {
    const nlohmann::json result = evaluate(data);
    expect_success({"train", "--model", in("out"), "--data", in(data), "--no-shuffle", "--batch-size", "64",
                    "--steps", "1", "--lr", "0", "--strategy", "none", "--metrics", in("m")});
    const double loss = result.at("loss"), trained = read_metrics(in("m")).at(0).at("loss");
    EXPECT_NEAR(loss, trained, 1e-6 * trained) << data;
    EXPECT_NEAR(result.at("perplexity"), std::exp(loss), 1e-9 * std::exp(loss));
  }
}

TEST_F(Evaluate, IsTheSameOnRanksAndInBatchesOfAnySize) {
  for (const char* data : {"data.txt", "samples.safetensors"}) {
    const nlohmann::json expected = evaluate(data);
    for (const Words& more : {Words{"-n", "3"}, Words{"--batch-size", "5"},
                              Words{"-n", "2", "--batch-size", "6"}, Words{"-n", "2", "-o", "pp_size=2"},
                              Words{"-n", "4", "-o", "pp_size=2", "-o", "num_microbatches=3"}}) {
      const nlohmann::json result = evaluate(data, more);
      EXPECT_NEAR(result.at("loss"), expected.at("loss"), 1e-6 * expected.at("loss").get<double>())
          << testing::PrintToString(more);
      EXPECT_EQ(result.at("labels"), expected.at("labels"));
      EXPECT_EQ(result.at("samples"), expected.at("samples"));
    }
  }
  EXPECT_EQ(evaluate("data.txt").at("labels"), 17 * 31);
}

// Of bytes each predicted token is one byte of text.
TEST_F(Evaluate, BitsPerByteAreThoseOfTheLossWhereTokensAreBytes) {
  for (const Words& more : {Words{}, Words{"-n", "2"}, Words{"-n", "2", "-o", "tp_size=2"},
                            Words{"-n", "2", "-o", "pp_size=2"}}) {
    const nlohmann::json result = evaluate("data.txt", more);
    EXPECT_NEAR(result.at("bits_per_byte"), result.at("loss").get<double>() / std::log(2.0), 1e-5)
        << testing::PrintToString(more);
  }
  EXPECT_FALSE(evaluate("data.txt", {"--objective", "causal_lm", "--precision", "bf16"})
                   .at("bits_per_byte")
                   .is_null());
}

TEST_F(Evaluate, BitsPerByteOfTextAreThoseOfTransformers) {
  WEFT_NEEDS_ORACLE();
  const std::string documents =
      folder_.file("documents.jsonl",
                   "{\"text\": \"The cat sat on the mat. Ein sch\u00f6ner Tag, gr\u00f6\u00dfer.\"}\n"
                   "{\"text\": \"na\u00efve \u65e5\u672c\u8a9e words\"}\n");
  expect_success({"tokenizer", "train", "--data", documents, "--output", in("words"), "--vocab-size", "280"});
  const std::string config = folder_.file("wide.json", config_json({.vocabulary = 300, .positions = 64}));
  expect_success({"train", "--model", config, "--tokenizer", in("words"), "--data", documents, "--packing",
                  "none", "--steps", "2", "--batch-size", "2", "--output", in("text"), "--strategy", "none"});
  const std::string oracle = oracle_python() + " " WEFT_TRAIN_TESTS "/bits_per_byte.py " + in("text");
  ASSERT_EQ(std::system((oracle + " " + documents + " > " + in("bits") + " 2> " + in("log")).c_str()), 0);
  const nlohmann::json result = nlohmann::json::parse(
      expect_success({"evaluate", "--model", in("text"), "--data", documents, "--packing", "none", "--json"})
          .out);
  EXPECT_NEAR(result.at("bits_per_byte"), std::stod(read_bytes(in("bits"))), 1e-5);
}

TEST_F(Evaluate, SaysItToPeople) {
  const Output output =
      expect_success({"evaluate", "--model", in("out"), "--data", data_, "--precision", "fp64"});
  EXPECT_THAT(output.out, testing::StartsWith("loss "));
  EXPECT_THAT(output.out, testing::HasSubstr("17 samples"));
}

// A file of an earlier evaluation stays until there is a result.
TEST_F(Evaluate, PrintsTheResultBeforeItReplacesTheFile) {
  RawTensors samples = language_samples(3, 8);
  samples.at("labels") = int64_tensor({3, 8}, std::vector<int64_t>(24, -100));
  folder_.file("none.safetensors", safetensors_bytes(samples));
  const std::string file = folder_.file("m", "an earlier result\n");
  const Words evaluate = {"evaluate", "--model", in("out"), "--data"};
  EXPECT_TRUE(refuses(evaluate + Words{in("none.safetensors"), "--metrics", file}, 1, {"no label"}));
  EXPECT_EQ(read_bytes(file), "an earlier result\n");
  expect_success(evaluate + Words{data_, "--metrics", file, "-n", "2"});
  EXPECT_EQ(read_metrics(file).size(), 1u);
  for (const char* ranks : {"1", "2"}) {
    const Output output = weft_command(evaluate + Words{data_, "--metrics", "/dev/full", "-n", ranks});
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.out, testing::StartsWith("loss "));
    EXPECT_THAT(output.error, testing::AllOf(testing::HasSubstr("--metrics /dev/full"),
                                             testing::HasSubstr("No space left")));
  }
}

// The result is there to be read, but a script must not take it for one.
TEST_F(Evaluate, FailsWhereTheLossIsNoNumber) {
  RawTensors tensors = read_safetensors(in("out/model.safetensors"));
  std::vector<float> values = float_values(tensors.at("transformer.ln_f.bias"));
  for (const float value : {std::nanf(""), HUGE_VALF}) {
    values[3] = value;
    tensors["transformer.ln_f.bias"] = float_tensor({12}, values);
    folder_.file("out/model.safetensors", safetensors_bytes(tensors));
    for (const Words& more : {Words{}, Words{"-n", "2"}, Words{"--by-document"}}) {
      const Output output =
          weft_command(Words{"evaluate", "--model", in("out"), "--data", data_, "--json"} + more);
      EXPECT_EQ(output.exit_code, 1) << testing::PrintToString(more);
      EXPECT_THAT(output.out, testing::HasSubstr("\"loss\":null"));
      EXPECT_THAT(output.error, testing::AllOf(testing::HasSubstr(data_), testing::HasSubstr("the loss is "),
                                               testing::HasSubstr("not finite")));
    }
  }
}

// Weights that lack something would be a loss of random values.
TEST_F(Evaluate, RefusesAModelWithoutSomeOfItsWeights) {
  RawTensors tensors = read_safetensors(in("out/model.safetensors"));
  tensors.erase("transformer.h.1.mlp.c_fc.weight");
  folder_.file("out/model.safetensors", safetensors_bytes(tensors));
  const std::vector<std::string> pieces = {
      "lacks 1", "parameters of GPT2LMHeadModel: transformer.h.1.mlp.c_fc.weight", "--allow-missing"};
  const Words evaluate = {"evaluate", "--model", in("out"), "--data", data_};
  EXPECT_TRUE(refuses(evaluate, 1, pieces));
  EXPECT_TRUE(refuses(evaluate + Words{"-n", "2"}, 1, pieces));
  EXPECT_TRUE(refuses({"forward", "--model", in("out"), "--inputs", in("samples.safetensors"), "--output",
                       in("o.safetensors")},
                      1, pieces));
  EXPECT_TRUE(refuses({"generate", "--model", in("out"), "--prompt", "a"}, 1, pieces));
  EXPECT_TRUE(refuses({"train", "--model", in("out"), "--data", data_, "--steps", "1"}, 1, pieces));
  EXPECT_THAT(
      expect_success(evaluate + Words{"--allow-missing"}).error,
      testing::AllOf(testing::HasSubstr("1 parameter of GPT2LMHeadModel"), testing::HasSubstr(in("out")),
                     testing::HasSubstr("initial values: transformer.h.1.mlp.c_fc.weight")));
  std::filesystem::remove(in("out/model.safetensors"));
  EXPECT_TRUE(refuses(evaluate, 1, {in("out"), "weights of GPT2LMHeadModel", "--allow-missing"}));
  expect_success(evaluate + Words{"--allow-missing"});
}

// A long list of names is cut.
TEST_F(Evaluate, NamesTheFirstEightOfManyMissingWeights) {
  RawTensors tensors = read_safetensors(in("out/model.safetensors"));
  const size_t lacking =
      std::erase_if(tensors, [](const auto& item) { return item.first.starts_with("transformer.h.1."); });
  ASSERT_EQ(lacking, 12u);
  folder_.file("out/model.safetensors", safetensors_bytes(tensors));
  const Words evaluate = {"evaluate", "--model", in("out"), "--data", data_};
  EXPECT_TRUE(refuses(evaluate, 1,
                      {"lacks 12", "parameters of GPT2LMHeadModel: transformer.h.1.ln_1.weight, ",
                       "transformer.h.1.ln_2.bias and 4 more; give"}));
  EXPECT_THAT(expect_success(evaluate + Words{"--allow-missing"}).error,
              testing::HasSubstr("12 parameters of GPT2LMHeadModel"));
}

// A head that the base model never had is what a fine-tuning begins with; its evaluation means nothing.
TEST_F(Evaluate, RefusesAHeadThatTrainingBeginsAnew) {
  RawTensors tensors = language_samples(8, 6);
  tensors.erase("attention_mask");
  tensors["labels"] = int64_tensor({8}, {0, 1, 0, 1, 1, 0, 1, 0});
  folder_.file("labelled.safetensors", safetensors_bytes(tensors));
  nlohmann::json config = nlohmann::json::parse(read_bytes(in("out/config.json")));
  config["pad_token_id"] = 0;
  folder_.file("out/config.json", config.dump());
  const Words same = {"--model",        in("out"),
                      "--architecture", "GPT2ForSequenceClassification",
                      "--data",         in("labelled.safetensors")};
  EXPECT_TRUE(refuses(Words{"evaluate"} + same, 1, {"lacks 1", "score.weight"}));
  const Output output =
      expect_success(Words{"train", "--steps", "1", "--strategy", "none", "--output", in("tuned")} + same);
  EXPECT_THAT(output.error, testing::HasSubstr("initial values: score.weight"));
  expect_success({"evaluate", "--model", in("tuned"), "--data", in("labelled.safetensors")});
}

// A model of masked tokens has no pooler, which a classifier reads.
TEST_F(Evaluate, RefusesAPoolerThatTrainingBeginsAnew) {
  folder_.file("bert.json", R"({"model_type": "bert", "architectures": ["BertForMaskedLM"],
      "vocab_size": 256, "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2,
      "num_attention_heads": 3, "max_position_embeddings": 32, "pad_token_id": 7})");
  RawTensors tensors = language_samples(8, 6);
  folder_.file("masked.safetensors", safetensors_bytes(tensors));
  expect_success({"train", "--model", in("bert.json"), "--data", in("masked.safetensors"), "--steps", "1",
                  "--strategy", "none", "--output", in("bert")});
  tensors["labels"] = int64_tensor({8}, {0, 1, 0, 1, 1, 0, 1, 0});
  folder_.file("labelled.safetensors", safetensors_bytes(tensors));
  const Words same = {"--model",        in("bert"),
                      "--architecture", "BertForSequenceClassification",
                      "--data",         in("labelled.safetensors")};
  const Words train = Words{"train", "--steps", "1", "--strategy", "none"} + same;
  EXPECT_TRUE(refuses(Words{"evaluate"} + same, 1, {"lacks 4", "bert.pooler.dense"}));
  const std::string error = expect_success(train).error;
  EXPECT_THAT(error, testing::HasSubstr("4 parameters of BertForSequenceClassification"));
  for (const char* name : {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight"})
    EXPECT_THAT(error, testing::HasSubstr(name));
  RawTensors weights = read_safetensors(in("bert/model.safetensors"));
  weights.erase("bert.encoder.layer.1.output.dense.weight");
  folder_.file("bert/model.safetensors", safetensors_bytes(weights));
  EXPECT_TRUE(refuses(train, 1, {"lacks 1", "bert.encoder.layer.1.output.dense.weight"}));
}

TEST_F(Evaluate, RefusesDataWithoutLabels) {
  RawTensors samples = language_samples(3, 8);
  RawTensor& labels = samples.at("labels");
  labels = int64_tensor(labels.shape, std::vector<int64_t>(24, -100));
  folder_.file("none.safetensors", safetensors_bytes(samples));
  const Words evaluate = {"evaluate", "--model", in("out"), "--data"};
  EXPECT_TRUE(refuses(evaluate + Words{in("none.safetensors")}, 1, {"none.safetensors", "no label"}));
  samples.erase("labels");
  folder_.file("unlabelled.safetensors", safetensors_bytes(samples));
  EXPECT_TRUE(refuses(evaluate + Words{in("unlabelled.safetensors")}, 1, {"no labels"}));
  EXPECT_TRUE(
      refuses(evaluate + Words{data_, "-n", "2", "--batch-size", "3"}, 1, {"--batch-size", "multiple of 2"}));
}

}  // namespace
}  // namespace weft::test

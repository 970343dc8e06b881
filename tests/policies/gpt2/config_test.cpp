#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpt2_config.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using gpt2::Gpt2Config;

Gpt2Config read(const std::string& json) {
  return Gpt2Config::read(Config::parse(json, "config.json"));
}

TEST(Gpt2Config, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"add_cross_attention": true})"), WEFT_UNIMPLEMENTED, "config.json",
               "add_cross_attention");
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "output_attentions");
  EXPECT_ERROR(read(R"({"quantization_config": {"bits": 4}})"), WEFT_UNIMPLEMENTED, "quantization_config");
  EXPECT_ERROR(read(R"({"is_causal": false})"), WEFT_UNIMPLEMENTED, "is_causal", "GPT-2", "set it to true");
  EXPECT_ERROR(read(R"({"per_layer_config": {"1": {"attn_pdrop": 0.5}}})"), WEFT_UNIMPLEMENTED,
               "per_layer_config", "GPT-2");
  EXPECT_ERROR(read(R"({"summary_type": "attn"})"), WEFT_INVALID_ARGUMENT, "summary_type", "attn",
               "cls_index");
  EXPECT_ERROR(read(R"({"model_type": "llama"})"), WEFT_INVALID_ARGUMENT, "model_type", "llama");
}

TEST(Gpt2Config, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"n_embd": 10, "n_head": 3})"), WEFT_INVALID_ARGUMENT, "n_embd", "10", "n_head", "3");
  EXPECT_ERROR(read(R"({"n_embd": 768, "hidden_size": 96})"), WEFT_INVALID_ARGUMENT, "n_embd", "hidden_size",
               "768", "96");
  for (const auto& names : {std::pair("n_positions", "max_position_embeddings"),
                            {"n_layer", "num_hidden_layers"},
                            {"n_head", "num_attention_heads"}})
    EXPECT_ERROR(read(fmt::format(R"({{"{}": 2, "{}": 3}})", names.first, names.second)),
                 WEFT_INVALID_ARGUMENT, names.first, names.second, "is 2", "is 3");
  EXPECT_ERROR(read(R"({"n_layer": 0})"), WEFT_INVALID_ARGUMENT, "n_layer", "at least 1");
  EXPECT_ERROR(read(R"({"num_hidden_layers": 5000})"), WEFT_INVALID_ARGUMENT, "num_hidden_layers", "4096");
  EXPECT_ERROR(read(R"({"activation_function": "gelu_nwe"})"), WEFT_INVALID_ARGUMENT, "activation_function",
               "gelu_new");
  EXPECT_ERROR(read(R"({"resid_pdrop": 1.5})"), WEFT_INVALID_ARGUMENT, "resid_pdrop", "1.5");
  EXPECT_ERROR(read(R"({"problem_type": "regresion"})"), WEFT_INVALID_ARGUMENT, "problem_type",
               "\"regression\"");
  EXPECT_ERROR(read(R"({"problem_type": "single_label_classification", "num_labels": 1})"),
               WEFT_INVALID_ARGUMENT, "problem_type", "1 label");
}

TEST(Gpt2Config, HasDefaultsOfHuggingFace) {
  const Gpt2Config config = read("{}");
  EXPECT_EQ(config.vocab_size, 50257);
  EXPECT_EQ(config.n_positions, 1024);
  EXPECT_EQ(config.n_inner, 4 * 768);
  EXPECT_EQ(config.activation_function, "gelu_new");
  EXPECT_EQ(config.labels.count, 2);
  EXPECT_EQ(config.classifier_dropout, 0.1);
  EXPECT_FALSE(config.pad_token_id);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(Gpt2Config, TakesOtherNamesOfKeys) {
  const Gpt2Config config = read(
      R"({"hidden_size": 96, "max_position_embeddings": 7, "num_attention_heads": 4, "num_hidden_layers": 3,
               "n_inner": null, "hidden_dropout": 0.25, "id2label": {"0": "a", "1": "b", "2": "c"}})");
  EXPECT_EQ(config.n_embd, 96);
  EXPECT_EQ(config.n_positions, 7);
  EXPECT_EQ(config.n_head, 4);
  EXPECT_EQ(config.n_layer, 3);
  EXPECT_EQ(config.n_inner, 384);
  EXPECT_EQ(config.classifier_dropout, 0.25);
  EXPECT_EQ(config.labels.count, 3);
}

}  // namespace

}  // namespace weft::test

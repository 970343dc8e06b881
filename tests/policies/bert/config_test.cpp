#include "bert_config.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using bert::BertConfig;

BertConfig read(const std::string& json) {
  return BertConfig::read(Config::parse(json, "config.json"));
}

TEST(BertConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"add_cross_attention": true, "is_decoder": true})"), WEFT_UNIMPLEMENTED,
               "config.json", "add_cross_attention", "BERT", "set it to false");
  EXPECT_ERROR(read(R"({"is_encoder_decoder": true})"), WEFT_UNIMPLEMENTED, "is_encoder_decoder");
  for (const char* type : {"relative_key", "relative_key_query"})
    EXPECT_ERROR(read(std::string(R"({"position_embedding_type": ")") + type + "\"}"), WEFT_UNIMPLEMENTED,
                 "position_embedding_type", type, "set it to \"absolute\"");
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "output_attentions", "BERT");
  EXPECT_ERROR(read(R"({"pruned_heads": {"0": [1]}})"), WEFT_UNIMPLEMENTED, "pruned_heads");
  EXPECT_ERROR(read(R"({"model_type": "roberta"})"), WEFT_INVALID_ARGUMENT, "model_type", "roberta");
  EXPECT_EQ(read(R"({"position_embedding_type": "absolute", "chunk_size_feed_forward": 4,
                     "add_cross_attention": false})")
                .hidden_size,
            768);
}

// In transformers is_causal goes before is_decoder.
TEST(BertConfig, RefusesAnIsCausalThatContradictsIsDecoder) {
  EXPECT_ERROR(read(R"({"is_causal": true})"), WEFT_UNIMPLEMENTED, "is_causal", "is_decoder", "BERT",
               "set it to false");
  EXPECT_ERROR(read(R"({"is_causal": false, "is_decoder": true})"), WEFT_UNIMPLEMENTED, "is_causal",
               "later positions", "set it to true");
  EXPECT_FALSE(read(R"({"is_causal": false})").is_decoder);
  EXPECT_TRUE(read(R"({"is_causal": true, "is_decoder": true})").is_decoder);
}

TEST(BertConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"hidden_size": 10, "num_attention_heads": 3})"), WEFT_INVALID_ARGUMENT, "hidden_size",
               "10", "num_attention_heads", "3");
  EXPECT_ERROR(read(R"({"hidden_act": "gelo"})"), WEFT_INVALID_ARGUMENT, "hidden_act", "gelu");
  EXPECT_ERROR(read(R"({"vocab_size": 7, "pad_token_id": 7})"), WEFT_INVALID_ARGUMENT, "pad_token_id", "7",
               "-7 to 6");
  EXPECT_ERROR(read(R"({"type_vocab_size": 0})"), WEFT_INVALID_ARGUMENT, "type_vocab_size", "at least 1");
  EXPECT_ERROR(read(R"({"classifier_dropout": 1})"), WEFT_INVALID_ARGUMENT, "classifier_dropout");
  EXPECT_ERROR(read(R"({"layer_norm_eps": 0})"), WEFT_INVALID_ARGUMENT, "layer_norm_eps");
  EXPECT_ERROR(read(R"({"initializer_range": -1})"), WEFT_INVALID_ARGUMENT, "initializer_range");
}

TEST(BertConfig, HasDefaultsOfHuggingFace) {
  const BertConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 30522);
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.num_hidden_layers, 12);
  EXPECT_EQ(config.num_attention_heads, 12);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.hidden_act, "gelu");
  EXPECT_EQ(config.hidden_dropout_prob, 0.1);
  EXPECT_EQ(config.attention_probs_dropout_prob, 0.1);
  EXPECT_EQ(config.classifier_dropout, 0.1);
  EXPECT_EQ(config.max_position_embeddings, 512);
  EXPECT_EQ(config.type_vocab_size, 2);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.is_decoder);
}

// The config.json of bert-base-multilingual-cased, which has keys that transformers does not read either, and
// what transformers 5 writes.
TEST(BertConfig, ReadsFilesOfTransformers4And5) {
  const BertConfig old = read(R"({"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
      "directionality": "bidi", "gradient_checkpointing": false, "hidden_act": "gelu",
      "hidden_dropout_prob": 0.2, "hidden_size": 24, "initializer_range": 0.02, "intermediate_size": 72,
      "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
      "num_attention_heads": 12, "num_hidden_layers": 3, "pad_token_id": 0, "pooler_fc_size": 768,
      "pooler_type": "first_token_transform", "position_embedding_type": "absolute",
      "transformers_version": "4.7.0", "type_vocab_size": 2, "use_cache": true, "vocab_size": 119547})");
  const BertConfig now = read(R"({"add_cross_attention": false, "bos_token_id": null,
      "classifier_dropout": null, "dtype": "float32", "eos_token_id": null, "hidden_dropout_prob": 0.2,
      "hidden_size": 24, "intermediate_size": 72, "is_decoder": false, "model_type": "bert",
      "num_hidden_layers": 3, "tie_word_embeddings": true, "transformers_version": "5.23.0",
      "vocab_size": 119547})");
  for (const BertConfig& config : {old, now}) {
    EXPECT_EQ(config.vocab_size, 119547);
    EXPECT_EQ(config.hidden_size, 24);
    EXPECT_EQ(config.intermediate_size, 72);
    EXPECT_EQ(config.num_hidden_layers, 3);
    EXPECT_EQ(config.classifier_dropout, 0.2);
    EXPECT_FALSE(config.is_decoder);
  }
}

TEST(BertConfig, TellsNoPaddingFromTheDefault) {
  EXPECT_EQ(read(R"({"pad_token_id": null})").padding_row(), std::nullopt);
  EXPECT_EQ(read("{}").padding_row(), 0);
  EXPECT_EQ(read(R"({"vocab_size": 9, "pad_token_id": -1})").padding_row(), 8);
}

}  // namespace

}  // namespace weft::test

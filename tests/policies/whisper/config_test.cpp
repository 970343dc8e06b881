#include "whisper_config.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using whisper::WhisperConfig;

WhisperConfig read(const std::string& json, bool has_decoder = true) {
  return WhisperConfig::read(Config::parse(json, "config.json"), has_decoder);
}

TEST(WhisperConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "config.json",
               "output_attentions");
  EXPECT_ERROR(read(R"({"quantization_config": {"bits": 8}})"), WEFT_UNIMPLEMENTED, "quantization_config");
  EXPECT_ERROR(read(R"({"model_type": "speecht5"})"), WEFT_INVALID_ARGUMENT, "model_type", "speecht5",
               "Whisper");
  for (const std::string value : {"true", "false"})
    EXPECT_ERROR(read("{\"is_causal\": " + value + "}"), WEFT_UNIMPLEMENTED, "is_causal", value, "Whisper",
                 "set it to null");
  EXPECT_EQ(read(R"({"is_causal": null})").d_model, 384);
  for (const std::string key : {"encoder_layerdrop", "decoder_layerdrop"}) {
    EXPECT_ERROR(read("{\"" + key + "\": 0.1}"), WEFT_UNIMPLEMENTED, "config.json", key, "0.1", "Whisper",
                 "set it to 0");
    EXPECT_EQ(read("{\"" + key + "\": 0.0}").encoder_layers, 4);
  }
}

TEST(WhisperConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"d_model": 64, "hidden_size": 96})"), WEFT_INVALID_ARGUMENT, "d_model", "hidden_size",
               "64", "96");
  EXPECT_ERROR(read(R"({"encoder_layers": 3, "num_hidden_layers": 2})"), WEFT_INVALID_ARGUMENT,
               "encoder_layers", "num_hidden_layers");
  for (const std::string alias : {"num_attention_heads", "num_key_value_heads"})
    EXPECT_ERROR(read("{\"encoder_attention_heads\": 6, \"" + alias + "\": 4}"), WEFT_INVALID_ARGUMENT,
                 "encoder_attention_heads", alias, "6", "4");
  EXPECT_ERROR(read(R"({"num_attention_heads": 6, "num_key_value_heads": 4})"), WEFT_INVALID_ARGUMENT,
               "\"num_attention_heads\" is 6", "\"num_key_value_heads\", its other name, is 4");
  EXPECT_ERROR(read(R"({"encoder_attention_heads": 5})"), WEFT_INVALID_ARGUMENT, "d_model",
               "encoder_attention_heads", "384", "5");
  EXPECT_ERROR(read(R"({"decoder_attention_heads": 5})"), WEFT_INVALID_ARGUMENT, "decoder_attention_heads");
  EXPECT_ERROR(read(R"({"decoder_layers": 0})"), WEFT_INVALID_ARGUMENT, "decoder_layers", "at least 1");
  EXPECT_ERROR(read(R"({"activation_function": "gleu"})"), WEFT_INVALID_ARGUMENT, "activation_function",
               "gelu");
  EXPECT_ERROR(read(R"({"activation_dropout": 1})"), WEFT_INVALID_ARGUMENT, "activation_dropout");
  EXPECT_ERROR(read(R"({"vocab_size": 10, "decoder_start_token_id": 1})"), WEFT_INVALID_ARGUMENT,
               "pad_token_id", "50256", "0 to 9");
  EXPECT_ERROR(read(R"({"decoder_start_token_id": 51865})"), WEFT_INVALID_ARGUMENT, "decoder_start_token_id",
               "0 to 51864");
}

// Of an odd number of channels one would be neither sine nor cosine, and two have no second frequency.
TEST(WhisperConfig, RefusesAWidthWithoutSinusoids) {
  EXPECT_ERROR(read(R"({"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 3})"),
               WEFT_INVALID_ARGUMENT, "d_model", "15", "even");
  EXPECT_ERROR(read(R"({"d_model": 2, "encoder_attention_heads": 1, "decoder_attention_heads": 1})"),
               WEFT_INVALID_ARGUMENT, "d_model", "at least 4");
}

TEST(WhisperConfig, RefusesSpansThatDoNotFit) {
  EXPECT_ERROR(read(R"({"mask_time_prob": 1.5})"), WEFT_INVALID_ARGUMENT, "mask_time_prob", "1.5", "0 to 1");
  EXPECT_ERROR(read(R"({"mask_feature_length": 0})"), WEFT_INVALID_ARGUMENT, "mask_feature_length",
               "at least 1");
  EXPECT_ERROR(read(R"({"mask_time_min_masks": -1})"), WEFT_INVALID_ARGUMENT, "mask_time_min_masks", "-1");
  EXPECT_ERROR(read(R"({"apply_spec_augment": true, "mask_time_length": 41, "max_source_positions": 20})"),
               WEFT_INVALID_ARGUMENT, "mask_time_length", "41", "40 frames");
  const std::string features =
      R"({"apply_spec_augment": true, "mask_feature_length": 81, "mask_feature_prob": )";
  EXPECT_ERROR(read(features + "0.1}"), WEFT_INVALID_ARGUMENT, "mask_feature_length", "80 mel bins");
  EXPECT_NO_THROW(read(features + "0}"));
  EXPECT_NO_THROW(read(R"({"mask_time_length": 41, "max_source_positions": 20})"));
}

TEST(WhisperConfig, HasDefaultsOfHuggingFace) {
  const WhisperConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 51865);
  EXPECT_EQ(config.num_mel_bins, 80);
  EXPECT_EQ(config.d_model, 384);
  EXPECT_EQ(config.encoder_layers, 4);
  EXPECT_EQ(config.encoder_attention_heads, 6);
  EXPECT_EQ(config.encoder_ffn_dim, 1536);
  EXPECT_EQ(config.decoder_layers, 4);
  EXPECT_EQ(config.decoder_attention_heads, 6);
  EXPECT_EQ(config.decoder_ffn_dim, 1536);
  EXPECT_EQ(config.max_source_positions, 1500);
  EXPECT_EQ(config.frames(), 3000);
  EXPECT_EQ(config.max_target_positions, 448);
  EXPECT_EQ(config.activation_function, "gelu");
  EXPECT_EQ(config.dropout, 0);
  EXPECT_EQ(config.attention_dropout, 0);
  EXPECT_EQ(config.activation_dropout, 0);
  EXPECT_EQ(config.init_std, 0.02);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.decoder_start_token_id, 50257);
  EXPECT_EQ(config.pad_token_id, 50256);
  EXPECT_FALSE(config.use_weighted_layer_sum);
  EXPECT_EQ(config.classifier_proj_size, 256);
  EXPECT_FALSE(config.spec_augment.on);
  EXPECT_EQ(config.spec_augment.time.share, 0.05);
  EXPECT_EQ(config.spec_augment.time.length, 10);
  EXPECT_EQ(config.spec_augment.time.least, 2);
  EXPECT_EQ(config.spec_augment.features.share, 0);
  EXPECT_EQ(config.spec_augment.features.length, 10);
  EXPECT_EQ(config.spec_augment.features.least, 0);
  EXPECT_EQ(read("{}", false).labels.count, 2);
}

TEST(WhisperConfig, ReadsEveryKey) {
  const WhisperConfig config = read(R"({"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_key_value_heads": 4, "decoder_attention_heads": 3, "decoder_layers": 5, "encoder_ffn_dim": 7,
      "decoder_ffn_dim": 9, "vocab_size": 30, "num_mel_bins": 6, "max_source_positions": 21,
      "max_target_positions": 12, "activation_function": "relu", "dropout": 0.1, "attention_dropout": 0.2,
      "activation_dropout": 0.3, "init_std": 0.5, "use_cache": false, "tie_word_embeddings": false,
      "decoder_start_token_id": null, "pad_token_id": null, "apply_spec_augment": true,
      "mask_time_prob": 0.25, "mask_time_length": 3, "mask_time_min_masks": 1, "mask_feature_prob": 0.5,
      "mask_feature_length": 2, "mask_feature_min_masks": 4})");
  EXPECT_EQ(config.d_model, 24);
  EXPECT_EQ(config.encoder_layers, 3);
  EXPECT_EQ(config.encoder_attention_heads, 4);
  EXPECT_EQ(config.encoder_ffn_dim, 7);
  EXPECT_EQ(config.decoder_layers, 5);
  EXPECT_EQ(config.decoder_attention_heads, 3);
  EXPECT_EQ(config.decoder_ffn_dim, 9);
  EXPECT_EQ(config.num_mel_bins, 6);
  EXPECT_EQ(config.frames(), 42);
  EXPECT_EQ(config.max_target_positions, 12);
  EXPECT_EQ(config.activation_function, "relu");
  EXPECT_EQ(config.dropout, 0.1);
  EXPECT_EQ(config.attention_dropout, 0.2);
  EXPECT_EQ(config.activation_dropout, 0.3);
  EXPECT_EQ(config.init_std, 0.5);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.decoder_start_token_id);
  EXPECT_FALSE(config.pad_token_id);
  EXPECT_TRUE(config.spec_augment.on);
  EXPECT_EQ(config.spec_augment.time.share, 0.25);
  EXPECT_EQ(config.spec_augment.time.length, 3);
  EXPECT_EQ(config.spec_augment.time.least, 1);
  EXPECT_EQ(config.spec_augment.features.share, 0.5);
  EXPECT_EQ(config.spec_augment.features.length, 2);
  EXPECT_EQ(config.spec_augment.features.least, 4);
  EXPECT_EQ(read(R"({"init_std": 0.5, "initializer_range": 0.25})").init_std, 0.25);
}

// A class without a decoder reads nothing of one, and its loss is always that of one label.
TEST(WhisperConfig, ReadsTheOwnKeysOfAClassifier) {
  const WhisperConfig config =
      read(R"({"vocab_size": 3, "decoder_attention_heads": 5, "use_weighted_layer_sum": true,
               "classifier_proj_size": 9, "num_labels": 4, "apply_spec_augment": true})",
           false);
  EXPECT_TRUE(config.use_weighted_layer_sum);
  EXPECT_EQ(config.classifier_proj_size, 9);
  EXPECT_EQ(config.labels.count, 4);
  EXPECT_FALSE(config.spec_augment.on);
  EXPECT_FALSE(read(R"({"use_weighted_layer_sum": true})").use_weighted_layer_sum);
  EXPECT_ERROR(read(R"({"problem_type": "regression"})", false), WEFT_INVALID_ARGUMENT, "problem_type",
               "regression", "single_label_classification");
  EXPECT_ERROR(read(R"({"num_labels": 1})", false), WEFT_INVALID_ARGUMENT, "config.json", "1 label",
               "WhisperForAudioClassification", "always 0");
}

// Of the published openai/whisper-tiny, and as transformers 5 saves it.
TEST(WhisperConfig, ReadsTheFilesOfBothVersionsOfTransformers) {
  for (const char* json :
       {R"({"_name_or_path": "openai/whisper-tiny", "activation_dropout": 0.0, "activation_function": "gelu",
            "architectures": ["WhisperForConditionalGeneration"], "attention_dropout": 0.0,
            "begin_suppress_tokens": [220, 50257], "bos_token_id": 50257, "d_model": 384,
            "decoder_attention_heads": 6, "decoder_ffn_dim": 1536, "decoder_layerdrop": 0.0,
            "decoder_layers": 4, "decoder_start_token_id": 50258, "dropout": 0.0,
            "encoder_attention_heads": 6, "encoder_ffn_dim": 1536, "encoder_layerdrop": 0.0,
            "encoder_layers": 4, "eos_token_id": 50257, "forced_decoder_ids": [[1, 50259], [2, 50359]],
            "init_std": 0.02, "is_encoder_decoder": true, "max_length": 448, "max_source_positions": 1500,
            "max_target_positions": 448, "model_type": "whisper", "num_hidden_layers": 4,
            "num_mel_bins": 80, "pad_token_id": 50257, "scale_embedding": false,
            "suppress_tokens": [1, 2, 7], "torch_dtype": "float32", "transformers_version": "4.27.0.dev0",
            "use_cache": true, "vocab_size": 51865})",
        R"({"activation_function": "gelu", "begin_suppress_tokens": [220, 50257], "bos_token_id": 50257,
            "classifier_proj_size": 256, "d_model": 384, "decoder_start_token_id": 50258,
            "dtype": "float32", "eos_token_id": 50257, "encoder_layers": 4, "mask_time_prob": 0.05,
            "max_length": null, "median_filter_width": 7, "model_type": "whisper", "pad_token_id": 50257,
            "suppress_tokens": null, "tie_word_embeddings": true, "transformers_version": "5.23.0",
            "vocab_size": 51865})"}) {
    const WhisperConfig config = read(json);
    EXPECT_EQ(config.encoder_layers, 4);
    EXPECT_EQ(config.decoder_start_token_id, 50258);
    EXPECT_EQ(config.pad_token_id, 50257);
    EXPECT_TRUE(config.tie_word_embeddings);
  }
}

}  // namespace

}  // namespace weft::test

#include "policies/whisper/tiny_whisper.hpp"

#include "policies/tiny_models.hpp"

namespace weft::test {

Model tiny_whisper(const TinyWhisper& whisper, const std::string& precision) {
  const std::string config =
      fmt::format(R"({{"model_type": "whisper", "vocab_size": 23, "num_mel_bins": 3, "d_model": 16,
      "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_layers": 2,
      "decoder_attention_heads": 8, "decoder_ffn_dim": 12, "max_source_positions": {0},
      "max_target_positions": 9, "pad_token_id": 3, "decoder_start_token_id": 1, "init_std": 0.3,
      "num_labels": 3, "classifier_proj_size": 6, "dropout": {1}, "attention_dropout": {1},
      "activation_dropout": {1}, {2}}})",
                  whisper.source, whisper.dropout, whisper.keys);
  return tiny_model(config, whisper.architecture, precision);
}

Batch whisper_batch(const TinyWhisper& whisper, int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  Batch batch = {{"input_features", at::randn({samples, 3, 2 * whisper.source})}};
  if (whisper.architecture == kWhisperClassifier) {
    batch.set("labels", at::randint(3, {samples}, at::kLong));
    return batch;
  }
  const at::Tensor ids = at::randint(23, {samples, whisper.target}, at::kLong);
  if (whisper.architecture == "WhisperModel") {
    batch.set("decoder_input_ids", ids);
    return batch;
  }
  const int64_t few = samples / 2, ignored = whisper.target / 2;
  ids.narrow(0, few, samples - few).narrow(1, 1, ignored).fill_(-100);
  batch.set("labels", ids);
  return batch;
}

Trial whisper_trial(const TinyWhisper& whisper, const std::string& precision) {
  return {.tolerance = trial_tolerance(precision),
          .model = [=](const JobOptions& options) { return tiny_whisper(whisper, options.precision); },
          .batch = [=](int64_t step) { return whisper_batch(whisper, 7, step); }};
}

}  // namespace weft::test

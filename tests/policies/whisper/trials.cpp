#include "policies/trials.hpp"

#include "policies/tiny_models.hpp"
#include "policies/whisper/tiny_whisper.hpp"

namespace weft::test {

namespace {

TinyTrial model_of(const std::string& name, const TinyWhisper& whisper,
                   const std::vector<std::string>& precisions = {"fp64"}) {
  return {name, [=](const std::string& precision) { return whisper_trial(whisper, precision); }, precisions};
}

// Rows of 2 to 7 tokens with padding on either side, and positions that count without it.
Trial padded_whisper_trial(const std::string& precision) {
  Trial trial = whisper_trial({}, precision);
  trial.batch = [](int64_t step) {
    Batch batch = whisper_batch({}, 7, step);
    const at::Tensor mask = at::ones({7, 7}, at::kLong);
    for (int64_t row = 0; row < 6; ++row)
      row % 2 == 0 ? mask[row].narrow(0, 7 - row, row).zero_() : mask[row].narrow(0, 0, row).zero_();
    batch.at("labels").masked_fill_(mask.eq(0), -100);
    batch.set("decoder_attention_mask", mask);
    batch.set("decoder_position_ids", (mask.cumsum(1) - 1).clamp_min(0));
    return batch;
  };
  return trial;
}

// Rows of two sequences, which do not attend to each other.
Trial packed_whisper_trial(const std::string& precision) {
  Trial trial = whisper_trial({}, precision);
  trial.batch = [](int64_t step) {
    Batch batch = whisper_batch({}, 7, step);
    const at::Tensor begins = at::arange(7).remainder(5).add(1).unsqueeze(1),
                     all = at::arange(7).unsqueeze(0);
    batch.set("decoder_position_ids", at::where(all.lt(begins), all, all - begins));
    return batch;
  };
  return trial;
}

}  // namespace

const char* const kFamily = "whisper";

FamilyTrials family_trials() {
  const TinyTrial tied = model_of("tied", {}, {"fp32", "fp64"}),
                  untied = model_of("untied", {.keys = kUntiedWhisper});
  TinyTrial augmented = model_of("SpecAugment", {.keys = kAugmented});
  augmented.draws_for_samples = true;
  FamilyTrials trials;
  trials.models = {
      tied,
      untied,
      model_of("WhisperForAudioClassification", {kWhisperClassifier}),
      model_of("WhisperForAudioClassification, weighted layers", {kWhisperClassifier, kWeighted}),
      augmented,
      model_of("fewer positions than ranks", {.source = 2, .target = 3}),
      {"padding", padded_whisper_trial, {"fp64"}}};
  trials.packed = {{"packed sequences", packed_whisper_trial, {"fp64"}}};
  trials.bases = {model_of("WhisperModel", {"WhisperModel"})};
  trials.plans = {tied, untied};
  trials.forms = {{kWhisperGeneration, [](const std::string& precision) {
                     const TinyWhisper dropping = {.dropout = 0.2};
                     Trial trial = whisper_trial(dropping, precision);
                     trial.batch = [=](int64_t step) { return whisper_batch(dropping, 3, step + 1); };
                     return trial;
                   }}};
  return trials;
}

}  // namespace weft::test

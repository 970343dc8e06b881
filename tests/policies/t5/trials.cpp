#include "policies/trials.hpp"

#include "policies/t5/tiny_t5.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

constexpr const char* kClassifier = "T5ForTokenClassification";

TinyTrial model_of(const std::string& name, const char* architecture, const char* keys) {
  return {name, [=](const std::string& precision) {
            return t5_trial(architecture, keys, trial_tolerance(precision));
          }};
}

// Rows of 4 to 9 tokens with padding on either side; 2 to 5 tokens in the decoder.
Trial padded_t5_trial(const std::string& precision) {
  Trial trial = t5_trial(kGeneration, kTied, trial_tolerance(precision));
  trial.batch = [](int64_t step) {
    Batch batch = t5_batch(kGeneration, 7, step);
    const at::Tensor mask = at::ones({7, 9}, at::kLong), target = at::ones({7, 5}, at::kLong);
    for (int64_t row = 0; row < 6; ++row)
      row % 2 == 0 ? mask[row].narrow(0, 9 - row, row).zero_() : mask[row].narrow(0, 0, row).zero_();
    for (int64_t row = 0; row < 4; ++row) target[row].narrow(0, 5 - row, row).zero_();
    batch.set("attention_mask", mask);
    batch.set("decoder_attention_mask", target);
    return batch;
  };
  return trial;
}

// Fewer positions than ranks, so that some ranks have none.
Trial short_trial(const std::string& precision) {
  Trial trial = t5_trial(kGeneration, kUntied, trial_tolerance(precision));
  trial.batch = [](int64_t step) {
    const Batch batch = t5_batch(kGeneration, 7, step);
    return Batch{{"input_ids", batch.at("input_ids").narrow(1, 0, 3)},
                 {"labels", batch.at("labels").narrow(1, 0, 2)}};
  };
  return trial;
}

Trial t5_base_trial(const char* architecture, const std::string& precision) {
  Trial trial = t5_trial(architecture, kTied, trial_tolerance(precision));
  trial.batch = [=](int64_t step) {
    Batch batch = t5_batch(kGeneration, 4, step + 2);
    if (std::string_view(architecture) == "T5Model")
      batch.set("decoder_input_ids", batch.at("labels").clamp_min(0));
    batch.erase("labels");
    return batch;
  };
  return trial;
}

TinyTrial form_of(const std::string& activation) {
  const std::string config = fmt::format(R"({{"model_type": "t5", "vocab_size": 23, "d_model": 24, "d_kv": 6,
      "d_ff": 16, "num_heads": 4, "num_layers": 2, "relative_attention_num_buckets": 8, "dropout_rate": 0.2,
      "relative_attention_max_distance": 12, "decoder_start_token_id": 0, "feed_forward_proj": "{}"}})",
                                         activation);
  const Trial trial = form_trial({.model = [=](const JobOptions& options) {
    return tiny_model(config, kGeneration, options.precision);
  }});
  return {activation, [=](const std::string&) { return trial; }};
}

}  // namespace

const char* const kFamily = "t5";

FamilyTrials family_trials() {
  const TinyTrial tied = model_of("tied", kGeneration, kTied),
                  untied = model_of("untied", kGeneration, kUntied);
  FamilyTrials trials;
  trials.models = {tied,
                   untied,
                   model_of("T5ForTokenClassification, tied", kClassifier, kTied),
                   model_of("T5ForTokenClassification, untied", kClassifier, kUntied),
                   {"padding", padded_t5_trial, {"fp64"}},
                   {"fewer positions than ranks", short_trial, {"fp64"}}};
  for (const char* architecture : {"T5Model", "T5EncoderModel"})
    trials.bases.push_back(
        {architecture, [=](const std::string& precision) { return t5_base_trial(architecture, precision); }});
  trials.plans = {tied, untied};
  trials.forms = {form_of("relu"), form_of("gated-gelu")};
  return trials;
}

}  // namespace weft::test

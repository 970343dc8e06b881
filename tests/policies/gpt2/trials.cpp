#include "policies/trials.hpp"

#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

constexpr const char* kLanguage = "GPT2LMHeadModel";

// Positions mark the documents of a row.
Trial placed_trial(const std::string& precision) {
  Trial trial = gpt2_trial(kLanguage, precision);
  trial.batch = [before = trial.batch](int64_t step) {
    Batch batch = before(step);
    batch.set("position_ids", at::tensor({0, 1, 2, 0, 1, 0, 1}).repeat({6, 1}));
    return batch;
  };
  return trial;
}

Trial dropping_trial() {
  return form_trial({.model = [](const JobOptions& options) {
    return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 24, .heads = 4, .dropout = 0.2});
  }});
}

}  // namespace

const char* const kFamily = "gpt2";

FamilyTrials family_trials() {
  FamilyTrials trials;
  for (const std::string architecture : kGpt2Classes)
    trials.models.push_back(
        {architecture, [=](const std::string& precision) { return gpt2_trial(architecture, precision); }});
  const TinyTrial language = trials.models[0];
  trials.models.push_back(
      {"GPT2LMHeadModel, padding",
       [=](const std::string& precision) { return padded_trial(language.trial(precision)); },
       {"fp64"}});
  trials.packed = {{"GPT2LMHeadModel, documents by positions", placed_trial, {"fp64"}},
                   {"GPT2LMHeadModel, packed",
                    [=](const std::string& precision) { return packed_trial(language.trial(precision)); },
                    {"fp64"}}};
  trials.bases = {{"GPT2Model", [](const std::string& precision) {
                     return base_trial(gpt2_trial("GPT2Model", precision));
                   }}};
  trials.plans = {language};
  trials.forms = {{kLanguage, [](const std::string&) { return dropping_trial(); }}};
  return trials;
}

}  // namespace weft::test

#include "policies/trials.hpp"

#include "base/text.hpp"
#include "policies/bert/bert_trial.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

TinyTrial model_of(const TinyBert& bert, const std::vector<std::string>& precisions = {"fp64"}) {
  return {fmt::format("{}{}{}", bert.architecture, bert.decodes ? ", decoder" : "",
                      bert.positions < 4 ? ", fewer positions than ranks" : ""),
          [=](const std::string& precision) { return bert_trial(bert, precision); }, precisions};
}

// Returns a model without a loss.
TinyTrial base_of(const TinyBert& bert) {
  return {model_of(bert).name, [=](const std::string& precision) {
            Trial trial = bert_trial(bert, precision);
            trial.batch = [=](int64_t step) { return bert_inputs(bert, step); };
            return trial;
          }};
}

}  // namespace

const char* const kFamily = "bert";

FamilyTrials family_trials() {
  FamilyTrials trials;
  const TinyBert causal = {"BertLMHeadModel", /*decodes=*/true};
  trials.models = {model_of({"BertForPreTraining"}, {"fp32", "fp64"}), model_of(causal, {"fp32", "fp64"})};
  for (const char* architecture :
       {"BertLMHeadModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification",
        "BertForNextSentencePrediction", "BertForMultipleChoice", "BertForQuestionAnswering"})
    trials.models.push_back(model_of({architecture}));
  trials.models.push_back(model_of({"BertForMaskedLM", false, 3}));
  trials.bases = {base_of({"BertModel"}), base_of({"BertModel", /*decodes=*/true})};
  for (const TinyBert& bert : {causal, TinyBert{"BertForMaskedLM"}})
    trials.packed.push_back(
        {model_of(bert).name + ", packed",
         [=](const std::string& precision) { return packed_trial(bert_trial(bert, precision)); },
         {"fp64"}});
  trials.plans = {model_of({"BertForPreTraining"}), model_of(causal)};
  trials.forms = {{"BertForMaskedLM", [](const std::string& precision) {
                     return form_trial(bert_trial({"BertForMaskedLM", false, 7, 0.2}, precision));
                   }}};
  return trials;
}

}  // namespace weft::test

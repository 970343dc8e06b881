#include "policies/trials.hpp"

#include "policies/chatglm/tiny_chatglm.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

TinyTrial model_of(const std::string& name, const std::string& keys) {
  return {"ChatGLMForConditionalGeneration, " + name,
          [=](const std::string& precision) { return chatglm_trial(keys, precision); }};
}

Trial dropping_trial() {
  return form_trial({.model = [](const JobOptions& options) {
    return tiny_model(R"({"model_type": "chatglm", "padded_vocab_size": 23, "seq_length": 9,
        "hidden_size": 24, "ffn_hidden_size": 20, "num_layers": 1, "num_attention_heads": 4,
        "kv_channels": 6, "multi_query_attention": true, "multi_query_group_num": 2, "rmsnorm": false,
        "hidden_dropout": 0.2, "attention_dropout": 0.2})",
                      "ChatGLMForConditionalGeneration", options.precision);
  }});
}

}  // namespace

const char* const kFamily = "chatglm";

// On 4 ranks each group of kTwoGroups is held by two of them, and that of kOneGroup by all.
FamilyTrials family_trials() {
  const TinyTrial two = model_of("two groups", kTwoGroups), none = model_of("no groups", kUngrouped);
  FamilyTrials trials;
  trials.models = {two,
                   none,
                   model_of("one group", kOneGroup),
                   {"ChatGLMForConditionalGeneration, padding",
                    [](const std::string& precision) { return padded_chatglm_trial(kTwoGroups, precision); },
                    {"fp64"}}};
  trials.bases = {{"ChatGLMModel", [](const std::string& precision) {
                     return base_trial(chatglm_trial(kTwoGroups, precision, "ChatGLMModel"));
                   }}};
  trials.packed = {
      {"ChatGLMForConditionalGeneration, packed",
       [](const std::string& precision) { return packed_trial(chatglm_trial(kTwoGroups, precision)); },
       {"fp64"}}};
  trials.plans = {two, none};
  trials.forms = {{"ChatGLMForConditionalGeneration", [](const std::string&) { return dropping_trial(); }}};
  return trials;
}

}  // namespace weft::test

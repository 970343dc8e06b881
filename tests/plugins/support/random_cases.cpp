#include "plugins/support/random_cases.hpp"

#include <algorithm>

#include "plugins/support/refusals.hpp"
#include "policies/bert/bert_trial.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"
#include "policies/t5/tiny_t5.hpp"
#include "policies/tiny_models.hpp"

namespace weft::test {

namespace {

Trial shallow_gpt2(const std::string& precision) {
  Trial trial = gpt2_trial("GPT2LMHeadModel", precision);
  trial.batch = [](int64_t step) { return gpt2_batch(7, step); };
  return trial;
}

// Has 8 units.
Trial deep_gpt2(const std::string& precision) {
  Trial trial = shallow_gpt2(precision);
  trial.model = [](const JobOptions& options) {
    return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = 6});
  };
  return trial;
}

struct NamedModel {
  const char* name;
  Trial (*trial)(const std::string& precision);
};

// Of 6 or 7 samples, the first of which have more labels than the last. T5 and BERT have padding, too.
const NamedModel kModels[] = {
    {"gpt2", shallow_gpt2},
    {"deep gpt2", deep_gpt2},
    {"deep gpt2", deep_gpt2},
    {"llama, tied",
     [](const std::string& precision) {
       return llama_trial({"LlamaForCausalLM", 2, true}, precision);
     }},
    {"llama",
     [](const std::string& precision) {
       return llama_trial({"LlamaForCausalLM", 4, false}, precision);
     }},
    {"t5, tied",
     [](const std::string& precision) { return t5_trial(kGeneration, kTied, trial_tolerance(precision)); }},
    {"t5",
     [](const std::string& precision) { return t5_trial(kGeneration, kUntied, trial_tolerance(precision)); }},
    {"bert", [](const std::string& precision) { return bert_trial({"BertForPreTraining"}, precision); }},
    {"bert, decoder", [](const std::string& precision) {
       return bert_trial({"BertLMHeadModel", true}, precision);
     }}};

Case case_of(const RandomLayout& layout, const NamedModel& model, size_t number) {
  Case made;
  made.options.strategy = layout.strategy;
  made.options.options = layout.json();
  made.options.recompute = layout.recompute;
  made.options.accumulate = layout.accumulate;
  made.options.max_grad_norm = layout.max_grad_norm;
  made.options.precision = layout.precision;
  made.trial = model.trial(layout.precision);
  made.name = fmt::format("layout {}, {}", number, model.name);
  return made;
}

bool names_an_option(const std::string& error, const RandomLayout& layout) {
  return std::any_of(layout.options.begin(), layout.options.end(),
                     [&](const auto& option) { return error.find(option.first) != std::string::npos; });
}

}  // namespace

DrawnCases draw_cases(uint32_t seed, size_t count, LayoutBounds bounds) {
  const size_t most = 20 * count;
  RandomLayouts layouts(seed, std::move(bounds));
  DrawnCases drawn;
  size_t trained = 0;
  for (size_t number = 0; trained < count; ++number) {
    if (number == most) {
      ADD_FAILURE() << "of " << most << " layouts " << most - trained << " were refused";
      break;
    }
    const RandomLayout layout = layouts.draw();
    const NamedModel& model = kModels[layouts.below(std::size(kModels))];
    Case made = case_of(layout, model, number);
    const std::string reason = refusal(made, layout.ranks);
    if (reason.empty()) {
      ++trained;
      drawn.trained[layout.ranks].push_back(std::move(made));
      continue;
    }
    EXPECT_TRUE(names_an_option(reason, layout))
        << model.name << ", " << layout.text() << " is refused without naming an option: " << reason;
    drawn.refused[layout.ranks].emplace_back(std::move(made), reason);
  }
  return drawn;
}

}  // namespace weft::test

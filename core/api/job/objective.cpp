#include "weft/objective.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "loader/objectives.hpp"
#include "opening/model_data.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

namespace {

using Kind = nn::Objective::Kind;

constexpr std::array<std::pair<Kind, const char*>, 5> kNames = {{
    {Kind::kCausalLm, "causal_lm"},
    {Kind::kMaskedLm, "masked_lm"},
    {Kind::kNextSentence, "next_sentence"},
    {Kind::kMaskedLmNextSentence, "masked_lm_next_sentence"},
    {Kind::kMaskedImage, "masked_image"},
}};

const char* name_of(Kind kind) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const auto& known) { return known.first == kind; })
      ->second;
}

Kind kind_named(const std::string& name, const SettingName& called) {
  for (const auto& [kind, text] : kNames)
    if (name == text) return kind;
  const std::vector<std::string> known = objectives_of_labels();
  fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be {}{}", called("objective"), printable(name, 60),
       fmt::join(known, ", "), did_you_mean(name, known));
}

bool makes_pairs(Kind kind) {
  return kind == Kind::kNextSentence || kind == Kind::kMaskedLmNextSentence;
}

std::string can_learn(const Model& model) {
  const std::vector<std::string> names = objectives(model);
  if (names.empty())
    return "it learns only from labels in the data: give them under their names in a .safetensors file";
  return fmt::format("it can by {}", fmt::join(names, ", "));
}

// Returns the objective that the options name, or the first one of the model's class.
nn::Objective chosen(const Model& model, const std::string& name, const SettingName& called) {
  const std::vector<nn::Objective> found = model.module().objectives();
  if (name.empty()) {
    if (!found.empty()) return found.front();
    fail(WEFT_INVALID_ARGUMENT, "{} has no objective; {}", model.architecture(), can_learn(model));
  }
  const Kind kind = kind_named(name, called);
  for (const nn::Objective& objective : found)
    if (objective.kind == kind) return objective;
  fail(WEFT_INVALID_ARGUMENT, "{} cannot be trained by {} {}; {}", model.architecture(), called("objective"),
       name, can_learn(model));
}

// Throws for a setting that an objective does not read; none stands for the labels of the data.
void refuse_without_effect(const ObjectiveOptions& options, std::optional<Kind> objective,
                           const SettingName& called) {
  const std::vector<Kind> masks = {Kind::kMaskedLm, Kind::kMaskedLmNextSentence},
                          images = {Kind::kMaskedImage};
  struct Setting {
    const char* name;
    const std::vector<Kind>& of;
    bool given;
  };
  const Setting settings[] = {
      {"mask_token_id", masks, options.mask_token_id.has_value()},
      {"special_ids", masks, options.special_ids.has_value()},
      {"mlm_probability", masks, options.mlm_probability.has_value()},
      {"mask_ratio", images, options.mask_ratio.has_value()},
      {"mask_patch_size", images, options.mask_patch_size.has_value()},
  };
  for (const Setting& setting : settings) {
    const bool has_effect =
        objective && std::find(setting.of.begin(), setting.of.end(), *objective) != setting.of.end();
    if (!setting.given || has_effect) continue;
    std::vector<const char*> names;
    for (const Kind kind : setting.of) names.push_back(name_of(kind));
    fail(WEFT_INVALID_ARGUMENT, "{} is for the objective {}, but {}; leave it out", called(setting.name),
         fmt::join(names, " or "),
         objective
             ? fmt::format("this training is by {}", name_of(*objective))
             : fmt::format("the labels are those of the data, because {} is not given", called("objective")));
  }
}

// Throws because `objective` makes pairs of sentences, and `data` has no documents to make them from.
[[noreturn]] void refuse_samples(const Model& model, Kind objective, const std::string& data,
                                 const SettingName& called) {
  fail(WEFT_INVALID_ARGUMENT,
       "{}: {} is trained by {} {}, which pairs sentences of documents, but this data has none; give text "
       "files, JSON lines or a folder of them and a tokenizer (in a program, open it with "
       "TextOptions::sentence_labels), or another {}: {}",
       data.empty() ? "the data" : data, model.architecture(), called("objective"), name_of(objective),
       called("objective"), can_learn(model));
}

double share(const std::string& name, const std::optional<double>& given, double otherwise) {
  const double value = given.value_or(otherwise);
  if (value > 0 && value <= 1) return value;
  fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be more than 0 and at most 1", name, value);
}

void require_id(const Model& model, const std::string& name, const char* verb, int64_t id,
                int64_t vocabulary) {
  if (id >= 0 && id < vocabulary) return;
  fail(WEFT_INVALID_ARGUMENT, "{} {} {}, which is outside the vocabulary of {}: its ids are 0 to {}", name,
       verb, id, model.architecture(), vocabulary - 1);
}

Vocabulary vocabulary_of(const Model& model, Kind kind) {
  return require_vocabulary(model, fmt::format("the objective {}", name_of(kind))).vocabularies().front();
}

std::shared_ptr<data::Dataset> mask_tokens(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                           Kind objective, const ObjectiveOptions& options,
                                           const SettingName& called) {
  const Vocabulary vocabulary = vocabulary_of(model, objective);
  data::TokenMasking masking;
  masking.field = vocabulary.field;
  masking.vocabulary = vocabulary.size;
  masking.probability = share(called("mlm_probability"), options.mlm_probability, masking.probability);
  if (!options.mask_token_id)
    fail(WEFT_INVALID_ARGUMENT,
         "{} is trained by the objective {}, which needs {}: give the id of the token that replaces masked "
         "ones, [MASK] in the tokenizer of the model",
         model.architecture(), name_of(objective), called("mask_token_id"));
  masking.mask_token_id = *options.mask_token_id;
  require_id(model, called("mask_token_id"), "is", masking.mask_token_id, vocabulary.size);
  masking.special_ids = options.special_ids.value_or(std::vector<int64_t>());
  for (const int64_t id : masking.special_ids)
    require_id(model, called("special_ids"), "has", id, vocabulary.size);
  masking.seed = options.seed;
  return data::with_masked_tokens(std::move(dataset), std::move(masking), called);
}

std::shared_ptr<data::Dataset> mask_patches(const nn::Objective& objective,
                                            std::shared_ptr<data::Dataset> dataset,
                                            const ObjectiveOptions& options, const SettingName& called) {
  data::PatchMasking masking;
  masking.patch_height = objective.patch_height;
  masking.patch_width = objective.patch_width;
  masking.ratio = share(called("mask_ratio"), options.mask_ratio, masking.ratio);
  masking.mask_patch_size = options.mask_patch_size.value_or(masking.mask_patch_size);
  masking.seed = options.seed;
  return data::with_masked_patches(std::move(dataset), masking, called);
}

}  // namespace

std::vector<std::string> objectives_of_labels() {
  std::vector<std::string> names;
  for (const auto& [kind, text] : kNames) names.emplace_back(text);
  return names;
}

std::vector<std::string> objectives(const Model& model) {
  std::vector<std::string> names;
  for (const nn::Objective& objective : model.module().objectives())
    names.emplace_back(name_of(objective.kind));
  return names;
}

std::shared_ptr<data::Dataset> with_objective(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                              const ObjectiveOptions& options) {
  return with_objective(model, std::move(dataset), options, own_name);
}

std::shared_ptr<data::Dataset> with_objective(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                              const ObjectiveOptions& options, const SettingName& called) {
  if (!dataset) fail(WEFT_INVALID_ARGUMENT, "with_objective: no data set was given");
  const nn::Objective objective = chosen(model, options.objective, called);
  refuse_without_effect(options, objective.kind, called);
  switch (objective.kind) {
    case Kind::kCausalLm:
      return data::with_next_tokens(std::move(dataset), vocabulary_of(model, objective.kind).field, called);
    case Kind::kMaskedLm:
      return mask_tokens(model, std::move(dataset), objective.kind, options, called);
    case Kind::kNextSentence:
    case Kind::kMaskedLmNextSentence:
      refuse_samples(model, objective.kind, dataset->name(), called);
    case Kind::kMaskedImage:
      return mask_patches(objective, std::move(dataset), options, called);
  }
  return dataset;
}

std::shared_ptr<data::Dataset> label_text(const Model& model, const ObjectiveOptions& options,
                                          const SettingName& called,
                                          const std::function<OpenedText(const TextLabels&)>& open) {
  if (options.objective.empty() && model.module().objectives().empty()) {
    refuse_without_effect(options, std::nullopt, called);
    return open({}).dataset;
  }
  const nn::Objective objective = chosen(model, options.objective, called);
  refuse_without_effect(options, objective.kind, called);
  if (objective.kind == Kind::kCausalLm) return open({}).dataset;
  OpenedText text = open({.of_tokens = false, .of_sentences = objective.sentence_labels});
  if (objective.kind == Kind::kNextSentence) return text.dataset;
  if (objective.kind == Kind::kMaskedImage) return with_objective(model, text.dataset, options, called);
  ObjectiveOptions complete = options;
  if (!complete.mask_token_id) complete.mask_token_id = text.mask_token_id;
  if (options.special_ids)
    text.special_ids.insert(text.special_ids.end(), options.special_ids->begin(), options.special_ids->end());
  complete.special_ids = std::move(text.special_ids);
  return mask_tokens(model, std::move(text.dataset), objective.kind, complete, called);
}

bool makes_pairs(const Model& model, const ObjectiveOptions& options, const SettingName& called) {
  if (options.objective.empty() && model.module().objectives().empty()) return false;
  return makes_pairs(chosen(model, options.objective, called).kind);
}

std::shared_ptr<data::Dataset> with_usual_objective(const Model& model,
                                                    std::shared_ptr<data::Dataset> dataset,
                                                    const ObjectiveOptions& options,
                                                    const SettingName& called) {
  if (!options.objective.empty() || !model.module().objectives().empty())
    return with_objective(model, std::move(dataset), options, called);
  refuse_without_effect(options, std::nullopt, called);
  return dataset;
}

std::shared_ptr<data::Dataset> open_dataset(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type,
                                            const ObjectiveOptions& options, const SettingName& called) {
  const bool has_labels = path.ends_with(".safetensors");
  if (options.objective.empty() && (has_labels || model.module().objectives().empty())) {
    refuse_without_effect(options, std::nullopt, called);
    return open_dataset(model, path, sequence_length, type, called);
  }
  // First, because without an objective the data may not be worth reading.
  const Kind kind = chosen(model, options.objective, called).kind;
  refuse_without_effect(options, kind, called);
  if (makes_pairs(kind)) refuse_samples(model, kind, path, called);
  auto dataset = open_samples(model, path, sequence_length, type, called);
  // The windows of a text have ids and labels of causal_lm already.
  if (kind == Kind::kCausalLm && !has_labels) return dataset;
  return with_objective(model, std::move(dataset), options, called);
}

}  // namespace weft

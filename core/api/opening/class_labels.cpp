#include "opening/class_labels.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/model.hpp"

namespace weft {

namespace {

// Adds a name of config.json. Throws if it has another label already.
void add_label(const Config& config, const std::string& name, int64_t label,
               std::map<std::string, int64_t>& labels) {
  const auto [known, is_new] = labels.emplace(name, label);
  if (is_new || known->second == label) return;
  nn::refuse(config, fmt::format("\"label2id\" and \"id2label\" give the class \"{}\" two labels, {} and {}",
                                 printable(name, 60), known->second, label));
}

// Returns whether Hugging Face made this name up, for a configuration without names: LABEL_0, LABEL_1, ...
bool is_made_up(const std::string& name, int64_t label) {
  return name == fmt::format("LABEL_{}", label);
}

// Returns the labels of the classes that config.json names.
std::map<std::string, int64_t> named_labels(const Config& config) {
  std::map<std::string, int64_t> labels;
  const auto object_of = [&](const char* key) {
    return config.has(key) ? parse_json(config.json(key), config.origin()) : nlohmann::json::object();
  };
  const nlohmann::json label_of = object_of("label2id"), name_of = object_of("id2label");
  for (const auto& [name, label] : label_of.items())
    add_label(config, name, integer_of(label, "label2id", config.origin()), labels);
  for (const auto& [id, name] : name_of.items())
    if (name.is_string() && !id.empty() && id.size() < 10 &&
        std::all_of(id.begin(), id.end(), [](char digit) { return digit >= '0' && digit <= '9'; }))
      add_label(config, name.get<std::string>(), std::stoll(id), labels);
  const bool none = std::all_of(labels.begin(), labels.end(),
                                [](const auto& known) { return is_made_up(known.first, known.second); });
  return none ? std::map<std::string, int64_t>() : labels;
}

// Returns whether the model has a loss of integer labels, one per sample.
bool learns_labels(const Model& model) {
  std::optional<Batch> batch = model.module().example(1, 1);
  if (!batch) return false;
  batch->set(nn::kLabels, at::zeros({1}, at::kLong));
  return !model.module().counts(*batch).empty();
}

}  // namespace

std::optional<ClassLabels> class_labels(const Model& model, const std::string& path, std::string_view input) {
  if (!learns_labels(model)) return std::nullopt;
  const nn::Labels labels = nn::read_labels(model.config());
  const std::string& problem = labels.problem;
  if (labels.count == 1 || (!problem.empty() && problem != "single_label_classification"))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: folders give each file one class, but {} has {} (num_labels, problem_type); give its labels "
         "with {} in a .safetensors file",
         path, labels.origin,
         problem.empty() ? "one label, a regression" : fmt::format("the problem {}", problem), input);
  return ClassLabels{named_labels(model.config()), labels.count};
}

}  // namespace weft

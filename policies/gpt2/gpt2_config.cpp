#include "gpt2_config.hpp"

#include <array>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "weft/nn/layers.hpp"

namespace weft::gpt2 {

namespace {

// The other name of a key that Hugging Face accepts (GPT2Config.attribute_map).
int64_t aliased(const Config& config, std::string_view key, std::string_view alias, int64_t otherwise) {
  if (!config.has(alias)) return config.integer(key, otherwise);
  const int64_t value = config.integer(alias);
  if (config.has(key) && config.integer(key) != value) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, but \"{}\", its other name, is {}; give one of them",
         config.origin(), key, config.integer(key), alias, value);
  }
  return value;
}

void require_positive(const Config& config, std::string_view key, int64_t value) {
  if (value < 1)
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at least 1", config.origin(), key, value);
}

double probability(const Config& config, std::string_view key, double otherwise) {
  const double value = config.real(key, otherwise);
  if (!(value >= 0 && value < 1)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at least 0 and less than 1", config.origin(), key,
         value);
  }
  return value;
}

// What Hugging Face can do and Weft cannot.
void refuse_unsupported(const Config& config) {
  struct Unsupported {
    const char* key;
    const char* means;
  };
  constexpr std::array kFlags = {
      Unsupported{"add_cross_attention", "attention over an encoder"},
      Unsupported{"is_encoder_decoder", "an encoder and a decoder"},
      Unsupported{"output_attentions", "attention probabilities among the outputs"},
      Unsupported{"output_hidden_states", "hidden states of all layers among the outputs"},
  };
  for (const Unsupported& flag : kFlags) {
    if (!config.flag(flag.key, false)) continue;
    fail(WEFT_UNIMPLEMENTED, "{}: \"{}\" is true ({}), which Weft's GPT-2 does not have; set it to false",
         config.origin(), flag.key, flag.means);
  }
  for (const char* key : {"quantization_config", "pruned_heads"}) {
    if (config.entries(key) == 0) continue;
    fail(WEFT_UNIMPLEMENTED,
         "{}: there is a \"{}\", which Weft's GPT-2 does not have; save the model without it",
         config.origin(), key);
  }
  const std::string type = config.text("model_type", "gpt2");
  if (type != "gpt2") {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"model_type\" is \"{}\", but a GPT-2 class was asked for",
         config.origin(), printable(type, 60));
  }
}

SummaryConfig read_summary(const Config& config) {
  SummaryConfig summary;
  const std::string type = config.text("summary_type", "cls_index");
  const std::vector<std::string> known = {"last", "first", "mean", "cls_index"};
  if (type == "last") {
    summary.type = SummaryConfig::Type::kLast;
  } else if (type == "first") {
    summary.type = SummaryConfig::Type::kFirst;
  } else if (type == "mean") {
    summary.type = SummaryConfig::Type::kMean;
  } else if (type != "cls_index") {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"summary_type\" is \"{}\", must be one of {}{}", config.origin(),
         printable(type, 60), fmt::join(known, ", "), did_you_mean(type, known));
  }
  summary.use_projection = config.flag("summary_use_proj", true);
  summary.project_to_labels = config.flag("summary_proj_to_labels", true);
  summary.activation = config.text("summary_activation", "");
  summary.first_dropout = probability(config, "summary_first_dropout", 0.1);
  summary.last_dropout = probability(config, "summary_last_dropout", 0);
  return summary;
}

void check_activation(const Config& config, std::string_view key, const std::string& name) {
  try {
    nn::activation(name);
  } catch (const Error& error) {
    fail(error.status(), "{}: \"{}\": {}", config.origin(), key, error.what());
  }
}

void check_problem_type(const Config& config, const Gpt2Config& gpt2) {
  const std::vector<std::string> known = {"regression", "single_label_classification",
                                          "multi_label_classification"};
  const std::string& type = gpt2.problem_type;
  if (!type.empty() && std::find(known.begin(), known.end(), type) == known.end()) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"problem_type\" is \"{}\", must be one of {}{}", config.origin(),
         printable(type, 60), fmt::join(known, ", "), did_you_mean(type, known));
  }
  if (type == "single_label_classification" && gpt2.num_labels == 1) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: \"problem_type\" is \"single_label_classification\" with 1 label; take \"regression\", or give "
         "\"id2label\" "
         "(or \"num_labels\") 2 labels or more",
         config.origin());
  }
}

void check(const Config& config, const Gpt2Config& gpt2) {
  require_positive(config, "vocab_size", gpt2.vocab_size);
  require_positive(config, "n_positions", gpt2.n_positions);
  require_positive(config, "n_embd", gpt2.n_embd);
  require_positive(config, "n_layer", gpt2.n_layer);
  require_positive(config, "n_head", gpt2.n_head);
  require_positive(config, "n_inner", gpt2.n_inner);
  require_positive(config, "num_labels", gpt2.num_labels);
  if (gpt2.n_embd % gpt2.n_head != 0) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"n_embd\" is {}, which \"n_head\" = {} does not divide",
         config.origin(), gpt2.n_embd, gpt2.n_head);
  }
  if (!(gpt2.layer_norm_epsilon > 0) || !(gpt2.initializer_range >= 0)) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: \"layer_norm_epsilon\" is {} and \"initializer_range\" {}; the first must be positive, the "
         "second not negative",
         config.origin(), gpt2.layer_norm_epsilon, gpt2.initializer_range);
  }
  check_activation(config, "activation_function", gpt2.activation_function);
  if (!gpt2.summary.activation.empty())
    check_activation(config, "summary_activation", gpt2.summary.activation);
  check_problem_type(config, gpt2);
}

}  // namespace

Gpt2Config Gpt2Config::read(const Config& config) {
  refuse_unsupported(config);
  Gpt2Config gpt2;
  gpt2.vocab_size = config.integer("vocab_size", gpt2.vocab_size);
  gpt2.n_positions = aliased(config, "n_positions", "max_position_embeddings", gpt2.n_positions);
  gpt2.n_embd = aliased(config, "n_embd", "hidden_size", gpt2.n_embd);
  gpt2.n_layer = aliased(config, "n_layer", "num_hidden_layers", gpt2.n_layer);
  gpt2.n_head = aliased(config, "n_head", "num_attention_heads", gpt2.n_head);
  gpt2.n_inner = config.integer("n_inner", 4 * gpt2.n_embd);
  gpt2.activation_function = config.text("activation_function", gpt2.activation_function);
  gpt2.resid_pdrop = probability(config, "resid_pdrop", gpt2.resid_pdrop);
  gpt2.embd_pdrop = probability(config, "embd_pdrop", gpt2.embd_pdrop);
  gpt2.attn_pdrop = probability(config, "attn_pdrop", gpt2.attn_pdrop);
  const char* classifier = config.has("classifier_dropout") ? "classifier_dropout" : "hidden_dropout";
  gpt2.classifier_dropout = probability(config, classifier, gpt2.classifier_dropout);
  gpt2.layer_norm_epsilon = config.real("layer_norm_epsilon", gpt2.layer_norm_epsilon);
  gpt2.initializer_range = config.real("initializer_range", gpt2.initializer_range);
  gpt2.scale_attn_weights = config.flag("scale_attn_weights", true);
  gpt2.scale_attn_by_inverse_layer_idx = config.flag("scale_attn_by_inverse_layer_idx", false);
  gpt2.reorder_and_upcast_attn = config.flag("reorder_and_upcast_attn", false);
  gpt2.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  gpt2.use_cache = config.flag("use_cache", true);
  if (config.has("pad_token_id")) gpt2.pad_token_id = config.integer("pad_token_id");
  gpt2.num_labels = config.has("id2label") ? config.entries("id2label") : config.integer("num_labels", 2);
  gpt2.problem_type = config.text("problem_type", "");
  gpt2.summary = read_summary(config);
  check(config, gpt2);
  return gpt2;
}

}  // namespace weft::gpt2

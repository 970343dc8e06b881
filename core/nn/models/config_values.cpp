#include "weft/nn/config_values.hpp"

#include <algorithm>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

namespace {

int64_t at_least_1(const Config& config, std::string_view key, int64_t value) {
  if (value < 1)
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at least 1", config.origin(), key, value);
  return value;
}

// Returns the first of the names `key` and `aliases` that the configuration has, or `key`. Throws if several
// have different integers.
std::string_view given_name(const Config& config, std::string_view key, Aliases aliases) {
  std::string_view given = key;
  for (const std::string_view alias : aliases) {
    if (!config.has(alias)) continue;
    if (!config.has(given)) {
      given = alias;
    } else if (config.integer(given) != config.integer(alias)) {
      fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, but \"{}\", its other name, is {}; give one of them",
           config.origin(), given, config.integer(given), alias, config.integer(alias));
    }
  }
  return given;
}

}  // namespace

int64_t positive(const Config& config, std::string_view key, int64_t otherwise) {
  return at_least_1(config, key, config.integer(key, otherwise));
}

int64_t positive(const Config& config, std::string_view key, Aliases aliases, int64_t otherwise) {
  return positive(config, given_name(config, key, aliases), otherwise);
}

int64_t num_layers(const Config& config, std::string_view key, int64_t otherwise) {
  constexpr int64_t kMostLayers = 4096;
  const int64_t value = positive(config, key, otherwise);
  if (value > kMostLayers)
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at most {}", config.origin(), key, value,
         kMostLayers);
  return value;
}

int64_t num_layers(const Config& config, std::string_view key, Aliases aliases, int64_t otherwise) {
  return num_layers(config, given_name(config, key, aliases), otherwise);
}

double probability(const Config& config, std::string_view key, double otherwise) {
  const double value = config.real(key, otherwise);
  if (!(value >= 0 && value < 1)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at least 0 and less than 1", config.origin(), key,
         value);
  }
  return value;
}

double positive_real(const Config& config, std::string_view key, double otherwise) {
  const double value = config.real(key, otherwise);
  if (!(value > 0))
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be more than 0", config.origin(), key, value);
  return value;
}

double not_negative(const Config& config, std::string_view key, double otherwise) {
  const double value = config.real(key, otherwise);
  if (!(value >= 0))
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must not be negative", config.origin(), key, value);
  return value;
}

std::string one_of(const Config& config, std::string_view key, std::string_view otherwise,
                   const std::vector<std::string>& known) {
  std::string value = config.text(key, otherwise);
  if (std::find(known.begin(), known.end(), value) == known.end())
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is \"{}\", must be one of {}{}", config.origin(), key,
         printable(value, 60), fmt::join(known, ", "), did_you_mean(value, known));
  return value;
}

int64_t token_id(const Config& config, std::string_view key, int64_t otherwise, int64_t vocabulary,
                 int64_t least) {
  const int64_t token = config.integer(key, otherwise);
  if (token < least || token >= vocabulary)
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be {} to {} (\"vocab_size\" - 1)", config.origin(),
         key, token, least, vocabulary - 1);
  return token;
}

std::optional<int64_t> optional_token_id(const Config& config, std::string_view key,
                                         std::optional<int64_t> otherwise, int64_t vocabulary,
                                         int64_t least) {
  if (config.json(key) == "null" || (!otherwise && !config.has(key))) return std::nullopt;
  return token_id(config, key, otherwise.value_or(0), vocabulary, least);
}

void require_multiple(const Config& config, std::string_view key, int64_t value, std::string_view of,
                      int64_t divisor) {
  if (value % divisor == 0) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, which \"{}\" = {} does not divide", config.origin(), key,
       value, of, divisor);
}

void refuse(const Config& config, const std::string& text) {
  fail(WEFT_INVALID_ARGUMENT, "{}: {}", config.origin(), text);
}

std::string activation_name(const Config& config, std::string_view key, std::string_view otherwise) {
  std::string name = config.text(key, otherwise);
  try {
    activation(name);
  } catch (const Error& error) {
    fail(error.status(), "{}: \"{}\": {}", config.origin(), key, error.what());
  }
  return name;
}

namespace {

// Returns the names of "id2label", by id; none unless it has one for each id.
std::vector<std::string> label_names(const Config& config, int64_t count) {
  const nlohmann::json names = parse_json(config.json("id2label"), config.origin());
  std::vector<std::string> found;
  for (int64_t id = 0; id < count && names.is_object(); ++id)
    if (const auto name = names.find(std::to_string(id)); name != names.end() && name->is_string())
      found.push_back(name->get<std::string>());
  return static_cast<int64_t>(found.size()) == count ? found : std::vector<std::string>();
}

}  // namespace

Labels read_labels(const Config& config) {
  Labels labels;
  labels.origin = config.origin();
  labels.count = positive(config, "num_labels", labels.count);
  if (config.has("id2label")) {
    labels.count = at_least_1(config, "id2label", config.entries("id2label"));
    labels.names = label_names(config, labels.count);
    if (config.integer("num_labels", labels.count) != labels.count)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: \"num_labels\" is {}, but \"id2label\" has {} labels; give one of them", config.origin(),
           config.integer("num_labels"), labels.count);
  }
  if (!config.text("problem_type", "").empty())
    labels.problem = one_of(config, "problem_type", "",
                            {"regression", "single_label_classification", "multi_label_classification"});
  if (labels.problem == "single_label_classification" && labels.count == 1) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: \"problem_type\" is \"single_label_classification\" with 1 label; take \"regression\", or give "
         "\"id2label\" (or \"num_labels\") 2 labels or more",
         config.origin());
  }
  return labels;
}

std::optional<int64_t> padding_token(const Config& config) {
  return config.has("pad_token_id") ? std::optional(config.integer("pad_token_id")) : std::nullopt;
}

std::optional<int64_t> row_of(const std::optional<int64_t>& token, int64_t vocabulary) {
  if (!token) return std::nullopt;
  return *token < 0 ? *token + vocabulary : *token;
}

void refuse_value(const Config& config, std::string_view key, std::string_view family, std::string_view means,
                  std::string_view instead) {
  fail(WEFT_UNIMPLEMENTED, "{}: \"{}\" is {} ({}), which Weft's {} does not have; set it to {}",
       config.origin(), key, printable(config.json(key), 60), means, family, instead);
}

void refuse_flag(const Config& config, std::string_view key, std::string_view family,
                 std::string_view means) {
  if (config.flag(key, false)) refuse_value(config, key, family, means, "false");
}

void require_causal(const Config& config, std::string_view family) {
  if (!config.flag("is_causal", true))
    refuse_value(config, "is_causal", family, "attention to later positions", "true");
}

void refuse_one_attention(const Config& config, std::string_view family) {
  if (config.has("is_causal"))
    refuse_value(config, "is_causal", family, "one kind of attention in the encoder and in the decoder",
                 "null");
}

void refuse_layerdrop(const Config& config, std::string_view key, std::string_view family) {
  if (not_negative(config, key, 0) == 0) return;
  fail(
      WEFT_UNIMPLEMENTED,
      "{}: \"{}\" is {} (the probability that a step leaves a block out), which Weft's {} does not have; set "
      "it to 0",
      config.origin(), key, config.json(key), family);
}

double initial_deviation(const Config& config, double otherwise) {
  if (!config.has("initializer_range")) return not_negative(config, "init_std", otherwise);
  return Initial::weights(not_negative(config, "initializer_range", otherwise)).second;
}

void refuse_unsupported(const Config& config, std::string_view family, std::string_view type) {
  refuse_flag(config, "output_attentions", family, "attention probabilities among the outputs");
  refuse_flag(config, "output_hidden_states", family, "hidden states of all layers among the outputs");
  refuse_flag(config, "tie_encoder_decoder", family, "an encoder and a decoder that share their weights");
  for (const char* key : {"quantization_config", "pruned_heads", "per_layer_config"}) {
    if (config.entries(key) == 0) continue;
    fail(WEFT_UNIMPLEMENTED,
         "{}: there is a \"{}\", which Weft's {} does not have; save the model without it", config.origin(),
         key, family);
  }
  const std::string found = config.text("model_type", type);
  if (found != type) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"model_type\" is \"{}\", but a {} class was asked for", config.origin(),
         printable(found, 60), family);
  }
}

}  // namespace weft::nn

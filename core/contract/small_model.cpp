#include "contract/small_model.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "device/random.hpp"
#include "plugins.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::contract {

namespace {

using nlohmann::json;

constexpr int64_t kHeads = 4, kHeadDim = 8, kWidth = kHeads * kHeadDim, kHidden = 48, kLayers = 2,
                  kVocabulary = 41, kLongest = 24, kFrames = 16, kImage = 16, kPatch = 4,
                  kPatches = kImage / kPatch * (kImage / kPatch);
constexpr int64_t kSamples = 4, kPositions = 10, kFirstId = 3;  // special tokens have the ids before

// Sizes, by the keys that configurations have for them.
const std::vector<std::pair<int64_t, std::vector<const char*>>> kSizes = {
    {kWidth, {"hidden_size", "n_embd", "n_embed", "d_model", "word_embed_proj_dim", "classifier_proj_size"}},
    {kHidden,
     {"intermediate_size", "ffn_dim", "d_ff", "ffn_hidden_size", "encoder_ffn_dim", "decoder_ffn_dim"}},
    {kLayers,
     {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers", "encoder_layers",
      "decoder_layers"}},
    {kHeads,
     {"num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "decoder_attention_heads"}},
    {kHeadDim, {"head_dim", "d_kv", "kv_channels"}},
    {kVocabulary, {"vocab_size", "padded_vocab_size"}},
    {kLongest, {"max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_target_positions"}},
    {kFrames / 2, {"max_source_positions", "num_mel_bins"}},
    {kImage, {"image_size"}},
    {kPatch, {"patch_size", "encoder_stride"}},
    {0, {"pad_token_id"}},
    {1, {"bos_token_id"}},
    {2, {"eos_token_id", "decoder_start_token_id"}}};

// Set in every configuration: their defaults would drop activations, or leave layers next to nothing to do.
const std::vector<std::pair<double, std::vector<const char*>>> kAlways = {
    {0.0,
     {"resid_pdrop", "embd_pdrop", "attn_pdrop", "summary_first_dropout", "summary_last_dropout", "dropout",
      "attention_dropout", "activation_dropout", "dropout_rate", "hidden_dropout", "classifier_dropout",
      "hidden_dropout_prob", "attention_probs_dropout_prob"}},
    {0.3, {"initializer_range", "init_std"}}};

}  // namespace

json small_config(json config, bool complete) {
  const auto is_number = [&](const char* key) {
    return config.contains(key) && config[key].is_number_integer();
  };
  // Heads of keys of their own, as many as the others or fewer.
  for (const char* key : {"num_key_value_heads", "multi_query_group_num"})
    if (is_number(key)) {
      const bool shares = !is_number("num_attention_heads") || config[key] < config["num_attention_heads"];
      config[key] = shares ? kHeads / 2 : kHeads;
    } else if (complete) {
      config[key] = kHeads / 2;
    }
  for (const auto& [size, keys] : kSizes)
    for (const char* key : keys)
      if (complete || is_number(key)) config[key] = size;
  if (is_number("n_inner")) config["n_inner"] = kHidden;
  for (const auto& [value, keys] : kAlways)
    for (const char* key : keys) config[key] = value;
  config.erase("layer_types");  // as many as there were layers
  return config;
}

namespace {

// The installed model libraries: their ids, and the classes that they provide.
std::vector<std::pair<std::string, std::vector<std::string>>> model_libraries() {
  weft_str text = {};
  ErrorSink error;
  error.check(weft_runtime_list(plugin_runtime(), &text, error));
  const json listing = parse_json(view(text), "the list of plugins");
  weft_text_destroy(text);
  std::vector<std::pair<std::string, std::vector<std::string>>> libraries;
  for (const json& plugin : listing.at("plugins"))
    if (!plugin.contains("problem") && plugin.value("kind", "") == "model")
      libraries.emplace_back(plugin.at("id"), plugin.at("provides"));
  return libraries;
}

SmallModel write_model(const json& small, const std::string& architecture, const Scratch& scratch) {
  const std::string path = scratch.path(fmt::format("{}.json", architecture));
  std::ofstream(path) << small.dump(2);
  return {path, architecture};
}

SmallModel of_config(const std::string& path, const std::string& architecture, const Scratch& scratch) {
  const Config given = Config::load(path);
  return write_model(small_config(json::parse(given.dump()), false),
                     architecture.empty() ? given.architecture() : architecture, scratch);
}

SmallModel of_family(const std::string& family, const std::string& architecture, const Scratch& scratch) {
  json small = small_config({{"architectures", {architecture}}, {"model_type", family}}, true);
  SmallModel model = write_model(small, architecture, scratch);
  try {
    model.open("fp32");
    return model;
  } catch (const Error&) {  // a family whose heads all have keys of their own
    for (const char* key : {"num_key_value_heads", "multi_query_group_num"}) small[key] = kHeads;
    return write_model(small, architecture, scratch);
  }
}

}  // namespace

std::vector<SmallModel> small_models(const std::string& family, const std::string& config,
                                     const Scratch& scratch) {
  if (!config.empty()) return {of_config(config, "", scratch)};
  std::vector<SmallModel> models;
  for (const auto& [id, classes] : model_libraries())
    for (const std::string& architecture : id == family ? classes : std::vector<std::string>())
      models.push_back(of_family(family, architecture, scratch));
  if (models.empty())
    fail(WEFT_NOT_FOUND,
         "no installed model library has the id {}; give --model with the config.json of a model to run",
         family);
  return models;
}

std::vector<std::string> installed_classes() {
  std::vector<std::string> all;
  for (const auto& [id, classes] : model_libraries()) all.insert(all.end(), classes.begin(), classes.end());
  return all;
}

SmallModel small_model(const std::string& architecture, const std::string& config, const Scratch& scratch) {
  if (!config.empty()) return of_config(config, architecture, scratch);
  for (const auto& [id, classes] : model_libraries())
    if (std::find(classes.begin(), classes.end(), architecture) != classes.end())
      return of_family(id, architecture, scratch);
  fail(WEFT_NOT_FOUND, "no installed model library provides {}; `weft plugins list` shows what there is",
       architecture);
}

namespace {

// The number of ids that a field of tokens can hold.
int64_t vocabulary_of(const nn::Model& model, const std::string& field) {
  if (const nn::TokenModel* const tokens = nn::find_token_model(model))
    for (const Vocabulary& known : tokens->vocabularies())
      if (known.field == field) return known.size;
  return kVocabulary;  // as small_config() says
}

// Takes a mean over samples of all outputs, with another weight for each element of a sample.
at::Tensor all_outputs(const State& outputs, const Batch& batch) {
  at::Tensor total;
  for (const auto& [name, tensor] : outputs) {
    if (!tensor.is_floating_point()) continue;
    const int64_t samples = batch.samples();
    const at::Tensor of_sample = tensor.reshape({samples, -1});
    const at::Tensor weights = at::arange(of_sample.size(1), tensor.options()).cos();
    const at::Tensor sum = (of_sample * weights).sum() / static_cast<double>(samples);
    total = total.defined() ? total + sum : sum;
  }
  return total;
}

}  // namespace

std::vector<Sample> small_samples(const nn::Model& model) {
  const std::optional<Batch> example = model.example(kSamples, kPositions);
  if (!example) return {};
  const at::Generator generator = device::host_generator(5);
  const auto integers = [&](int64_t low, int64_t high, at::IntArrayRef shape) {
    return at::randint(low, high, shape, generator, at::TensorOptions().dtype(at::kLong));
  };
  Batch batch = *example;
  std::vector<int64_t> tokens;  // the shape of the last field of tokens, which a decoder reads
  int64_t vocabulary = 0;
  for (auto& [name, tensor] : batch) {
    if (tensor.is_floating_point()) {
      tensor = at::randn(tensor.sizes(), generator, tensor.options());
      continue;
    }
    tokens = tensor.sizes().vec();
    if (tokens.size() == 3) tokens[1] = 2;  // choices
    vocabulary = vocabulary_of(model, name);
    tensor = integers(std::min(kFirstId, vocabulary - 1), vocabulary, tokens);
  }
  std::vector<Sample> samples;
  const auto add = [&](std::initializer_list<State::Field> labels) {
    Sample& sample = samples.emplace_back(Sample{batch, {}});
    for (const auto& [name, tensor] : labels) sample.batch.set(name, tensor);
  };
  if (!tokens.empty()) {
    const at::Tensor of_tokens = integers(kFirstId, vocabulary, tokens),
                     of_samples = integers(0, 2, {kSamples});
    const State::Field labels = {"labels", of_tokens}, of_sentences = {"next_sentence_label", of_samples},
                       of_choices = {"mc_labels", of_samples};
    add({labels, of_sentences, of_choices});
    add({labels, of_choices});
    add({labels, of_sentences});
    add({labels});
    add({{"labels", integers(0, 2, tokens)}});
    add({{"start_positions", integers(0, kPositions, {kSamples})},
         {"end_positions", integers(0, kPositions, {kSamples})}});
  }
  add({{"labels", integers(0, 2, {kSamples})}});
  add({{"bool_masked_pos", integers(0, 2, {kSamples, kPatches}).to(at::kBool)}});
  samples.push_back({batch, all_outputs});
  return samples;
}

Check stand_in_for_loss(const std::string& refusal) {
  return {
      "learns from labels", true,
      "not checked: it takes none of the labels that the checks know, so the sum of all outputs takes the "
      "place of its loss. Its last refusal: " +
          refusal};
}

}  // namespace weft::contract

// What the files of a model say about generation, and the figures of one that has ended.
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text.hpp"
#include "opening/model_state.hpp"
#include "weft/config.hpp"
#include "weft/generation.hpp"

namespace weft {

namespace {

using nlohmann::json;

// A key of transformers that changes the tokens in a way that Weft does not have, the number with which it
// changes nothing, and whether it changes only what is drawn, and so nothing in a greedy search.
struct Missing {
  const char* key;
  double neutral;
  bool is_drawn = false;
};
constexpr std::array<Missing, 26> kMissing = {{
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"penalty_alpha", 0},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"guidance_scale", 1},
    {"typical_p", 1, true},
    {"min_p", 0, true},
    {"top_h", 0, true},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"bad_words_ids", 0},
    {"force_words_ids", 0},
    {"constraints", 0},
    {"sequence_bias", 0},
    {"forced_eos_token_id", -1},
    {"exponential_decay_length_penalty", 0},
    {"watermarking_config", 0},
    {"dola_layers", 0},
    {"remove_invalid_values", 0},
    {"token_healing", 0},
    {"stop_strings", 0},
    {"return_timestamps", 0},
}};

bool is_neutral(const json& value, double neutral) {
  if (value.is_null() || value == false) return true;
  if (value.is_number()) return value.get<double>() == neutral;
  return (value.is_array() || value.is_object() || value.is_string()) && value.empty();
}

json value_of(const Config& config, const char* key) {
  const std::string text = config.json(key);
  return text.empty() ? json() : json::parse(text);
}

[[noreturn]] void refuse(const Config& config, const char* key, const char* wanted) {
  fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be {}", config.origin(), key,
       printable(config.json(key), 80), wanted);
}

// Returns the ids under a key, which is one id or a list of ids.
std::vector<int64_t> ids_of(const Config& config, const char* key) {
  json value = value_of(config, key);
  if (value.is_null()) return {};
  if (!value.is_array()) value = json::array({value});
  std::vector<int64_t> ids;
  for (const json& id : value) {
    if (!id.is_number_integer()) refuse(config, key, "an id or a list of ids");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

void refuse_missing(const Config& config, bool greedy) {
  for (const auto& [key, neutral, is_drawn] : kMissing)
    if (!(greedy && is_drawn) && !is_neutral(value_of(config, key), neutral))
      fail(WEFT_UNIMPLEMENTED,
           "{}: \"{}\" is {}, which changes the tokens in a way that Weft does not have; take the key out{}",
           config.origin(), key, printable(config.json(key), 80),
           is_drawn ? ", or generate greedily, where it changes nothing" : "");
}

// Adds the ids that "forced_decoder_ids" has for the positions 1, 2, ...: [[1, 5], [2, 6]]. Returns false if
// the model is to detect one of them, such as the language: [[1, null], [2, 6]], or [[2, 6]] alone.
bool add_forced(const Config& config, std::vector<int64_t>& prompt) {
  constexpr const char* kKey = "forced_decoder_ids";
  constexpr const char* kWanted =
      "a list of rising positions from 1 on, each with an id or null: [[1, 5], [2, 6]]";
  const json forced = value_of(config, kKey);
  if (forced.is_null()) return true;
  if (!forced.is_array()) refuse(config, kKey, kWanted);
  bool is_whole = true;
  int64_t next = 1;
  for (const json& pair : forced) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() &&
                         (pair[1].is_null() || pair[1].is_number_integer());
    if (!is_pair || pair[0].get<int64_t>() < next) refuse(config, kKey, kWanted);
    is_whole = is_whole && pair[0] == next && !pair[1].is_null();
    next = pair[0].get<int64_t>() + 1;
    if (is_whole) prompt.push_back(pair[1].get<int64_t>());
  }
  return is_whole;
}

// Returns the first tokens of the decoder. Those of a model of several languages are the caller's to choose,
// unless the file forces them.
std::vector<int64_t> decoder_prompt_of(const Config& config, const Config& model) {
  const Config& holder = config.has("decoder_start_token_id") ? config : model;
  const std::vector<int64_t> start = ids_of(holder, "decoder_start_token_id");
  if (start.size() > 1) refuse(holder, "decoder_start_token_id", "one id");
  std::vector<int64_t> prompt = start;
  if (prompt.empty()) return prompt;
  if (!add_forced(config, prompt) || (config.has("lang_to_id") && prompt.size() == 1)) return {};
  const std::vector<int64_t> plain = ids_of(config, "no_timestamps_token_id");
  if (plain.size() == 1 && prompt.back() != plain[0]) prompt.push_back(plain[0]);
  return prompt;
}

}  // namespace

int64_t Generation::new_tokens() const {
  int64_t count = 0;
  for (const GeneratedSequence& sequence : sequences) count += static_cast<int64_t>(sequence.ids.size());
  return count;
}

double Generation::tokens_per_second() const {
  return seconds > 0 ? static_cast<double>(new_tokens()) / seconds : 0;
}

GenerationOptions GenerationOptions::load(const std::string& path, bool greedy) {
  const std::filesystem::path file = std::filesystem::path(path) / kGenerationConfig;
  const Config model = Config::load(path);
  std::error_code ignored;
  const Config config = std::filesystem::exists(file, ignored) ? Config::load(file.string()) : model;
  refuse_missing(config, greedy);
  GenerationOptions options;
  options.origin = config.origin();
  options.greedy = greedy;
  if (!greedy) {
    options.temperature = config.real("temperature", options.temperature);
    options.top_k = config.integer("top_k", options.top_k);
    options.top_p = config.real("top_p", options.top_p);
  }
  options.repetition_penalty = config.real("repetition_penalty", options.repetition_penalty);
  options.stop_ids = ids_of(config, "eos_token_id");
  options.suppressed = ids_of(config, "suppress_tokens");
  options.suppressed_first = ids_of(config, "begin_suppress_tokens");
  if (const std::vector<int64_t> first = ids_of(config, "forced_bos_token_id"); first.size() == 1)
    options.forced_first = first[0];
  const Config& padding = config.has("pad_token_id") ? config : model;
  if (const std::vector<int64_t> id = ids_of(padding, "pad_token_id"); id.size() == 1 && id[0] >= 0)
    options.padding_id = id[0];
  options.decoder_prompt = decoder_prompt_of(config, model);
  return options;
}

}  // namespace weft

// `weft generate`.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>

#include "base/json.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "comm/agreement.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "command/device_choice.hpp"
#include "command/stop_texts.hpp"
#include "command/token_text.hpp"
#include "generation/token_choice.hpp"
#include "loader/fingerprint.hpp"
#include "weft/generation.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/sound_model.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::command {

namespace {

using Tokens = std::vector<int64_t>;

// Returns the options that the model's files have, changed by the flags.
GenerationOptions generation_options(const Settings& arguments, int64_t seed, int64_t vocabulary) {
  GenerationOptions options = GenerationOptions::load(arguments.text("model"), arguments.flag("greedy"));
  if (arguments.given("max_new_tokens")) options.max_new_tokens = arguments.integer("max_new_tokens");
  options.temperature = arguments.real("temperature", options.temperature);
  options.top_k = arguments.integer("top_k", options.top_k);
  options.top_p = arguments.real("top_p", options.top_p);
  options.repetition_penalty = arguments.real("repetition_penalty", options.repetition_penalty);
  options.num_samples = arguments.integer("num_samples", options.num_samples);
  options.seed = seed;
  check_options(options, called_by_file(options, arguments.name(),
                                        [&](const std::string& key) { return arguments.given(key); }));
  if (arguments.given("stop_ids")) {
    options.stop_ids = arguments.integers("stop_ids");
    for (const int64_t id : options.stop_ids)
      if (id < 0 || id >= vocabulary)
        fail(WEFT_INVALID_ARGUMENT, "--stop-ids: {} is outside the model's vocabulary, which has 0 to {}", id,
             vocabulary - 1);
  }
  return options;
}

// Returns the texts of --stop.
std::vector<std::string> stop_texts(const Settings& arguments, const TokenText& converter) {
  if (!arguments.given("stop")) return {};
  const std::vector<std::string> texts = arguments.words("stop");
  for (const std::string& text : texts)
    if (text.empty()) fail(WEFT_INVALID_ARGUMENT, "--stop is empty: give the text that ends a sequence");
  converter.require("--stop", "--stop-ids");
  return texts;
}

// Reads --prompts: each line is {"prompt": TEXT} or {"prompt_ids": [1, 2]}.
std::vector<Tokens> read_prompts(const std::string& path, const TokenText& converter) {
  std::ifstream file(path);
  if (!file) fail(WEFT_NOT_FOUND, "--prompts: cannot read {}", path);
  std::vector<Tokens> prompts;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (trim(line).empty()) continue;
    const std::string source = fmt::format("{}: line {}", path, number);
    const json value = parse_json(line, source);
    const bool has_text = value.is_object() && value.contains("prompt");
    const bool has_ids = value.is_object() && value.contains("prompt_ids");
    const char* const key = has_text ? "prompt" : "prompt_ids";
    const bool one = has_text != has_ids && value.size() == 1;
    const bool right =
        one && (has_text ? value[key].is_string()
                         : value[key].is_array() &&
                               std::all_of(value[key].begin(), value[key].end(),
                                           [](const json& id) { return id.is_number_integer(); }));
    if (!right)
      fail(WEFT_INVALID_ARGUMENT, R"({} is {}, must be {{"prompt": TEXT}} or {{"prompt_ids": [1, 2, 3]}})",
           source, printable(line, 80));
    prompts.push_back(has_text ? converter.ids_of(value[key].get<std::string>(), source + ": \"prompt\"")
                               : value[key].get<Tokens>());
  }
  if (prompts.empty()) fail(WEFT_INVALID_ARGUMENT, "--prompts: {} has no prompt", path);
  return prompts;
}

// What is generated from.
struct Prompts {
  std::vector<Tokens> tokens;             // of each prompt; the decoder's first ones with `inputs`
  std::shared_ptr<data::Dataset> inputs;  // of the encoder; null without --inputs
  int64_t size() const { return inputs ? inputs->size() : static_cast<int64_t>(tokens.size()); }
};

Prompts read(const Settings& arguments, const Model& model, const nn::Decoding& decoding,
             const TokenText& converter, const World& world) {
  const bool reads_tokens = decoding.encoder.empty() || decoding.encoder.front() == nn::kInputIds;
  const auto count = [&](std::initializer_list<const char*> keys) {
    return std::count_if(keys.begin(), keys.end(), [&](const char* key) { return arguments.given(key); });
  };
  Prompts prompts;
  if (arguments.given("inputs")) {
    if (decoding.encoder.empty())
      fail(WEFT_INVALID_ARGUMENT, "--inputs is for models with an encoder, which {} has not; give --prompt",
           model.architecture());
    if (count({"prompt", "prompts"}) > 0)
      fail(WEFT_INVALID_ARGUMENT,
           "--inputs has the prompts: leave --prompt and --prompts out; --prompt-ids are the decoder's first "
           "tokens");
    prompts.inputs = data_of(arguments, model, world).encoder_inputs("inputs");
  } else if (!reads_tokens) {
    fail(
        WEFT_INVALID_ARGUMENT, "{} reads no tokens: give {} with --inputs", model.architecture(),
        nn::find_sound_model(model.module())
            ? fmt::format("a recording (such as a .wav file), a folder of them, or {} in a .safetensors file",
                          decoding.encoder.front())
            : fmt::format("its {} in a .safetensors file", decoding.encoder.front()));
  } else if (count({"prompt", "prompt_ids", "prompts"}) != 1) {
    fail(WEFT_INVALID_ARGUMENT, "give one of --prompt TEXT, --prompt-ids 1,2,3 and --prompts FILE");
  }
  if (arguments.given("prompts")) prompts.tokens = read_prompts(arguments.text("prompts"), converter);
  if (arguments.given("prompt")) prompts.tokens = {converter.ids_of(arguments.text("prompt"), "--prompt")};
  if (arguments.given("prompt_ids")) prompts.tokens = {arguments.integers("prompt_ids")};
  for (size_t i = 0; i < prompts.tokens.size(); ++i) {
    const std::string what = prompts.tokens.size() == 1 ? "the prompt" : fmt::format("prompt {}", i);
    if (prompts.tokens[i].empty()) fail(WEFT_INVALID_ARGUMENT, "{} is empty: give at least one token", what);
    for (const int64_t id : prompts.tokens[i])
      if (id < 0 || id >= decoding.vocabulary)
        fail(WEFT_INVALID_ARGUMENT, "{}: the id {} is outside the model's vocabulary, which has 0 to {}",
             what, id, decoding.vocabulary - 1);
  }
  return prompts;
}

// Throws unless all ranks have the same prompts, and of the model's files the same numbers that all of them
// compute with. Each rank reads both itself.
void require_same(const World& world, const Prompts& prompts, const GenerationOptions& options) {
  if (world.size() == 1) return;
  json facts = {{"prompts", digest_prefix(sha256_hex(json(prompts.tokens).dump()))},
                {"first tokens of the decoder", options.decoder_prompt},
                {"pad_token_id", options.padding_id}};
  if (prompts.inputs) facts["inputs"] = data::compared_content(*prompts.inputs);
  require_agreement(world.communicator(), facts);
}

// Returns prompts of an encoder of tokens as a batch, the shorter ones with padding behind them.
Batch encoder_inputs(const std::vector<Tokens>& prompts, const nn::Decoding& decoding, int64_t padding) {
  size_t longest = 0, shortest = prompts.front().size();
  for (const Tokens& tokens : prompts) {
    longest = std::max(longest, tokens.size());
    shortest = std::min(shortest, tokens.size());
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(prompts.size()), static_cast<int64_t>(longest)};
  const at::Tensor ids = at::zeros(shape, at::kLong).fill_(padding), mask = at::zeros(shape, at::kLong);
  for (size_t row = 0; row < prompts.size(); ++row)
    for (size_t i = 0; i < prompts[row].size(); ++i) {
      ids[static_cast<int64_t>(row)][static_cast<int64_t>(i)] = prompts[row][i];
      mask[static_cast<int64_t>(row)][static_cast<int64_t>(i)] = 1;
    }
  Batch batch;
  batch.set(decoding.encoder[0], ids);
  if (shortest < longest) batch.set(decoding.encoder[1], mask);
  return batch;
}

// Generates from the prompts `begin` to `end`.
Generation run(Job& job, const Prompts& prompts, int64_t begin, int64_t end, const nn::Decoding& decoding,
               const GenerationOptions& options, const OnToken& on_token) {
  if (prompts.inputs) {
    std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
    std::iota(numbers.begin(), numbers.end(), begin);
    std::vector<Tokens> decoder;
    if (!prompts.tokens.empty()) decoder.assign(numbers.size(), prompts.tokens.front());
    return generate(job, prompts.inputs->get(numbers), decoder, options, on_token);
  }
  const std::vector<Tokens> own(prompts.tokens.begin() + begin, prompts.tokens.begin() + end);
  if (decoding.encoder.empty()) return generate(job, own, options, on_token);
  return generate(job, encoder_inputs(own, decoding, options.padding_id), {}, options, on_token);
}

// Prints the results.
class Printer {
 public:
  Printer(const Prompts& prompts, bool has_encoder, const TokenText& text,
          const std::vector<std::string>& stop_texts, bool as_json)
      : prompts_(prompts), has_encoder_(has_encoder), text_(text), stop_texts_(stop_texts), json_(as_json) {}

  // Prints tokens at once, in one line.
  void begin_line(int64_t prompt) {
    is_first_ = true;
    stream_.emplace(text_);
    stops_.emplace(stop_texts_);
    if (has_encoder_) return;
    for (const int64_t id : prompts_.tokens[static_cast<size_t>(prompt)])
      if (text_.works())
        write(stream_->add(id));
      else
        write_id(id);
  }
  void add(int64_t id) {
    if (text_.works())
      write(stops_->add(stream_->add(id)));
    else
      write_id(id);
    std::fflush(stdout);
  }
  void end_line() {
    if (text_.works()) write(stops_->add(stream_->end()) + stops_->end());
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

  void print(const Generation& generation) {
    for (const GeneratedSequence& sequence : generation.sequences) {
      if (json_) {
        print_json(sequence, generation.tokens_per_second());
        continue;
      }
      begin_line(sequence.prompt);
      for (const int64_t id : sequence.ids) add(id);
      end_line();
    }
  }

 private:
  void write_id(int64_t id) {
    std::printf(is_first_ ? "%lld" : ",%lld", static_cast<long long>(id));
    is_first_ = false;
  }
  static void write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

  void print_json(const GeneratedSequence& sequence, double tokens_per_second) const {
    json line = {{"prompt", sequence.prompt},
                 {"sample", sequence.sample},
                 {"ids", sequence.ids},
                 {"stopped", sequence.stopped},
                 {"tokens_per_second", tokens_per_second}};
    if (text_.works()) line["text"] = StopTexts(stop_texts_).add_all(text_.text_of(sequence.ids));
    std::printf("%s\n", line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }

  const Prompts& prompts_;
  const bool has_encoder_;
  const TokenText& text_;
  const std::vector<std::string>& stop_texts_;
  const bool json_;
  // Of the line.
  bool is_first_ = true;
  std::optional<TokenText::Stream> stream_;
  std::optional<StopTexts> stops_;
};

// Looks for the texts of --stop in all sequences while they grow.
class StopWatch {
 public:
  StopWatch(const TokenText& text, const std::vector<std::string>& stop_texts)
      : text_(text), stop_texts_(stop_texts) {}
  // Returns whether the sequence of the token has a stop text now.
  bool is_stop(const GeneratedToken& token) {
    if (stop_texts_.empty()) return false;
    const auto [sequence, is_new] = sequences_.try_emplace({token.prompt, token.sample}, text_, stop_texts_);
    sequence->second.stops.add(sequence->second.stream.add(token.id));
    return sequence->second.stops.found();
  }
  void clear() { sequences_.clear(); }

 private:
  struct Sequence {
    Sequence(const TokenText& text, const std::vector<std::string>& stop_texts)
        : stream(text), stops(stop_texts) {}
    TokenText::Stream stream;
    StopTexts stops;
  };
  const TokenText& text_;
  const std::vector<std::string>& stop_texts_;
  std::map<std::pair<int64_t, int64_t>, Sequence> sequences_;  // by prompt and sample
};

}  // namespace

int generate(const Settings& arguments) {
  const World world = join_job(arguments);
  const BoosterOptions booster_options = on_chosen_device(
      booster_options_for_outputs(arguments, world.size() == 1 ? "none" : ""), arguments, world);
  Model model =
      open_model(arguments, resolve_precision(booster_options), world, checkpoint::Missing::kNothing);
  const std::optional<nn::Decoding> decoding = model.module().decoding();
  if (!decoding)
    fail(WEFT_INVALID_ARGUMENT,
         "{} does not predict the next token; generate needs a causal language model, or a model with a "
         "decoder",
         model.architecture());
  const TokenText converter(arguments.text("model"), decoding->vocabulary);
  const int64_t batch_size = arguments.integer("batch_size");
  Prompts prompts;
  GenerationOptions options;
  std::vector<std::string> stops;
  on_every_rank(world.communicator(), [&] {
    stops = stop_texts(arguments, converter);
    prompts = read(arguments, model, *decoding, converter, world);
    options = generation_options(arguments, booster_options.seed, decoding->vocabulary);
  });
  require_same(world, prompts, options);
  Job job = Booster(booster_options, world).boost(std::move(model));
  Printer printer(prompts, !decoding->encoder.empty(), converter, stops, arguments.flag("json"));
  // One sequence is printed while it grows.
  const bool streams = prompts.size() == 1 && options.num_samples == 1 && !arguments.flag("json");
  StopWatch watch(converter, stops);
  OnToken on_token;
  if (streams || !stops.empty())
    on_token = [&](const GeneratedToken& token) {
      if (streams) printer.add(token.id);
      return !watch.is_stop(token);
    };
  for (int64_t begin = 0; begin < prompts.size();) {
    const int64_t end = begin + std::min(batch_size, prompts.size() - begin);
    options.first_prompt = begin;
    if (streams && world.is_master()) printer.begin_line(begin);
    const Generation generation = run(job, prompts, begin, end, *decoding, options, on_token);
    if (streams && world.is_master()) printer.end_line();
    if (!streams && world.is_master()) printer.print(generation);
    watch.clear();
    begin = end;
  }
  return 0;
}

}  // namespace weft::command

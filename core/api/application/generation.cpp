// The engine's implementation of weft/generation.h.
#include "weft/generation.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "application/handles.hpp"
#include "application/objects.hpp"
#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/option_table.hpp"
#include "base/options.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "generation/token_choice.hpp"

namespace weft::application {

namespace {

using Tokens = std::vector<int64_t>;

// A value that is not given is null, so that it leaves what the model's files say.
constexpr const char* kOptions = R"([
  {"name": "model", "type": "text", "default": "", "doc": "folder of the defaults"},
  {"name": "max_new_tokens", "type": "int", "default": null, "doc": "tokens of each sequence"},
  {"name": "greedy", "type": "bool", "default": false, "doc": "take the most likely token"},
  {"name": "temperature", "type": "float", "default": null, "doc": "divides the logits"},
  {"name": "top_k", "type": "int", "default": null, "doc": "draw from the k most likely tokens"},
  {"name": "top_p", "type": "float", "default": null, "doc": "draw from this total probability"},
  {"name": "repetition_penalty", "type": "float", "default": null, "doc": "of tokens that occurred"},
  {"name": "num_samples", "type": "int", "default": null, "doc": "sequences of each prompt"},
  {"name": "stop_ids", "type": "json", "default": null, "doc": "a list of ids that end a sequence"},
  {"name": "seed", "type": "int", "default": 42, "doc": "of what is drawn"}])";

GenerationOptions options_of(weft_str given) {
  constexpr const char* kFunction = "weft_job_generate";
  static const OptionTable table(nlohmann::json::parse(kOptions), kFunction);
  const nlohmann::json object =
      trim(view(given)).empty() ? nlohmann::json::object() : parse_json(view(given), kFunction);
  const Options values(table, object, kFunction);
  const std::string& model = values.at("model").text;
  const bool greedy = values.at("greedy").integer != 0;
  GenerationOptions options = model.empty() ? GenerationOptions() : GenerationOptions::load(model, greedy);
  const auto take = [&](const char* name, int64_t& field) {
    if (values.at(name).kind != WEFT_KIND_NONE) field = values.at(name).integer;
  };
  const auto take_real = [&](const char* name, double& field) {
    if (values.at(name).kind != WEFT_KIND_NONE) field = values.at(name).real;
  };
  if (values.at("max_new_tokens").kind != WEFT_KIND_NONE)
    options.max_new_tokens = values.at("max_new_tokens").integer;
  take("top_k", options.top_k);
  take("num_samples", options.num_samples);
  take("seed", options.seed);
  take_real("temperature", options.temperature);
  take_real("top_p", options.top_p);
  take_real("repetition_penalty", options.repetition_penalty);
  options.greedy = greedy;
  if (values.at("stop_ids").kind != WEFT_KIND_NONE) {
    const nlohmann::json ids = object.at("stop_ids");
    if (!ids.is_array() ||
        !std::all_of(ids.begin(), ids.end(), [](const nlohmann::json& id) { return id.is_number_integer(); }))
      fail(WEFT_INVALID_ARGUMENT, "{}: \"stop_ids\" is {}, must be a list of ids", kFunction,
           printable(ids.dump(), 60));
    options.stop_ids = ids.get<Tokens>();
  }
  check_options(options, called_by_file(options, own_name, [&](const std::string& name) {
                  return values.at(name).kind != WEFT_KIND_NONE;
                }));
  return options;
}

Tokens prompt_of(weft_ids prompt, uint64_t number) {
  if (prompt.size > 0 && prompt.data == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "weft_job_generate: prompt {} has a size and no data", number);
  return {prompt.data, prompt.data + prompt.size};
}

void hand_over(const Generation& generation, const weft_generation_arguments& to) {
  if (to.sequence == nullptr) return;
  for (const GeneratedSequence& sequence : generation.sequences) {
    const weft_sequence own = {.struct_size = sizeof(weft_sequence),
                               .prompt = sequence.prompt,
                               .sample = sequence.sample,
                               .ids = {sequence.ids.data(), sequence.ids.size()},
                               .stopped = sequence.stopped ? 1u : 0u,
                               .reserved = 0};
    to.sequence(to.context, &own);
  }
}

}  // namespace

weft_status tokenizer_open(weft_runtime* runtime, weft_str folder, weft_tokenizer** own, weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_tokenizer_open", "runtime");
    require(own, "weft_tokenizer_open", "own");
    *own = new weft_tokenizer{Tokenizer::open(std::string(view(folder)))};
  });
}

weft_status tokenizer_encode(const weft_tokenizer* tokenizer, weft_str text, uint32_t add_special_tokens,
                             weft_tensor** own, weft_error* error) {
  return guarded(error, [&] {
    require(tokenizer, "weft_tokenizer_encode", "tokenizer");
    require(own, "weft_tokenizer_encode", "own");
    const Tokens ids = tokenizer->tokenizer.encode(view(text), add_special_tokens != 0);
    *own = new weft_tensor{at::tensor(ids, at::kLong)};
  });
}

weft_status tokenizer_decode(const weft_tokenizer* tokenizer, weft_ids ids, uint32_t skip_special_tokens,
                             weft_tensor** own, weft_error* error) {
  return guarded(error, [&] {
    require(tokenizer, "weft_tokenizer_decode", "tokenizer");
    require(own, "weft_tokenizer_decode", "own");
    if (ids.size > 0) require(ids.data, "weft_tokenizer_decode", "ids");
    const std::string text =
        tokenizer->tokenizer.decode(Tokens(ids.data, ids.data + ids.size), skip_special_tokens != 0);
    *own = new weft_tensor{at::tensor(std::vector<uint8_t>(text.begin(), text.end()), at::kByte)};
  });
}

weft_status job_generate(weft_job* job, const weft_generation_arguments* given, weft_error* error) {
  return guarded(error, [&] {
    constexpr const char* kFunction = "weft_job_generate";
    require(job, kFunction, "job");
    require(given, kFunction, "arguments");
    const weft_generation_arguments arguments =
        known_part(kFunction, *given, WEFT_END_OF(weft_generation_arguments, num_prompts));
    if (arguments.num_prompts > 0) require(arguments.prompts, kFunction, "prompts");
    std::vector<Tokens> tokens;
    for (uint64_t i = 0; i < arguments.num_prompts; ++i) tokens.push_back(prompt_of(arguments.prompts[i], i));
    text_of_argument(arguments.options, kFunction, "options");
    const GenerationOptions values = options_of(arguments.options);
    OnToken on_token;
    if (arguments.token != nullptr)
      on_token = [&arguments](const GeneratedToken& token) {
        const weft_chosen_token chosen = {sizeof(weft_chosen_token), token.prompt, token.sample, token.id};
        return arguments.token(arguments.context, &chosen) != 0;
      };
    if (arguments.inputs.size > 0) {
      const Batch batch = batch_of(arguments.inputs, kFunction);
      hand_over(generate(job->job, batch, tokens, values, on_token), arguments);
    } else {
      hand_over(generate(job->job, tokens, values, on_token), arguments);
    }
  });
}

}  // namespace weft::application

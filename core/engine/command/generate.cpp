// `weft generate`.
#include <ATen/core/Generator.h>
#include <ATen/ops/full.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>

#include <cstdio>
#include <filesystem>
#include <limits>

#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "booster/model_data.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::command {

namespace {

struct Sampling {
  double temperature = 1;
  int64_t top_k = 0;  // 0 means all
  double top_p = 1;
  bool greedy = false;
};

Sampling sampling(const json& arguments) {
  Sampling s;
  s.temperature = real(arguments, "temperature", 1);
  s.top_k = integer(arguments, "top_k", 0);
  s.top_p = real(arguments, "top_p", 1);
  s.greedy = flag(arguments, "greedy");
  if (!(s.temperature > 0))
    fail(WEFT_INVALID_ARGUMENT, "--temperature is {}, must be positive; for no randomness use --greedy",
         s.temperature);
  if (s.top_k < 0) fail(WEFT_INVALID_ARGUMENT, "--top-k is {}, must not be negative", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1))
    fail(WEFT_INVALID_ARGUMENT, "--top-p is {}, must be in (0, 1]", s.top_p);
  return s;
}

// Draws a token. Keeps the top_k most likely tokens, then the smallest set of the most likely ones whose
// probability reaches top_p. logits: (V).
int64_t draw(at::Tensor logits, const Sampling& s, at::Generator& generator) {
  if (s.greedy) return device::value_of<int64_t>(logits.argmax());
  auto [values, order] = (logits / s.temperature).sort(/*dim=*/0, /*descending=*/true);
  int64_t count = s.top_k > 0 ? std::min(s.top_k, values.numel()) : values.numel();
  at::Tensor probabilities = values.narrow(0, 0, count).softmax(0);
  if (s.top_p < 1) {
    const at::Tensor before = probabilities.cumsum(0) - probabilities;
    count = std::max<int64_t>(1, device::value_of<int64_t>((before < s.top_p).sum()));
    probabilities = probabilities.narrow(0, 0, count);
  }
  const int64_t place = device::value_of<int64_t>(at::multinomial(probabilities, 1, false, generator));
  return device::value_of<int64_t>(order[place]);
}

bool has_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json"})
    if (std::filesystem::exists(folder / name)) return true;
  return false;
}

std::vector<int64_t> prompt_tokens(const json& arguments, bool bytes) {
  if (given(arguments, "prompt") == given(arguments, "prompt_ids"))
    fail(WEFT_INVALID_ARGUMENT, "give one of --prompt TEXT and --prompt-ids 1,2,3");
  if (given(arguments, "prompt_ids")) return arguments.at("prompt_ids").get<std::vector<int64_t>>();
  if (!bytes)
    fail(WEFT_INVALID_ARGUMENT,
         "--prompt works for models whose tokens are bytes (vocabulary of 256, no tokenizer in the folder); "
         "give token ids with --prompt-ids");
  std::vector<int64_t> tokens;
  for (const char c : text(arguments, "prompt")) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace

int generate(const json& arguments) {
  const World world = join_job("generate", arguments);
  if (world.size() != 1)
    fail(WEFT_UNIMPLEMENTED, "generate runs on one rank, but there are {}", world.size());
  const BoosterOptions options = booster_options(arguments, "none");
  Model model = open_model(arguments, resolve_precision(options), world, checkpoint::Missing::kNothing);
  const nn::TokenModel& tokens_model = require_vocabulary(model, "weft generate");
  const Vocabulary vocabulary = tokens_model.vocabularies().front();
  const int64_t longest = tokens_model.max_sequence_length();
  const std::string architecture = model.architecture();
  if (!tokens_model.continues_text())
    fail(WEFT_INVALID_ARGUMENT, "{} does not predict the next token; generate needs a causal language model",
         architecture);
  const bool bytes = vocabulary.size == 256 && !has_tokenizer(text(arguments, "model"));
  std::vector<int64_t> tokens = prompt_tokens(arguments, bytes);
  if (tokens.empty()) fail(WEFT_INVALID_ARGUMENT, "the prompt is empty: give at least one token");
  for (const int64_t token : tokens)
    if (token < 0 || token >= vocabulary.size)
      fail(WEFT_INVALID_ARGUMENT, "--prompt-ids: {} is outside the model's vocabulary, which has 0 to {}",
           token, vocabulary.size - 1);
  const Sampling how = sampling(arguments);
  const int64_t count = integer(arguments, "max_new_tokens", 100);
  if (count < 0) fail(WEFT_INVALID_ARGUMENT, "--max-new-tokens is {}, must not be negative", count);
  at::Generator generator = device::host_generator(static_cast<uint64_t>(options.seed));
  Job job = Booster(options, world).boost(std::move(model));
  const auto say = [&](int64_t token, bool first) {
    if (bytes)
      std::fputc(static_cast<int>(token), stdout);
    else
      std::printf(first ? "%lld" : ",%lld", static_cast<long long>(token));
  };
  for (size_t i = 0; i < tokens.size(); ++i) say(tokens[i], i == 0);
  for (int64_t i = 0; i < count; ++i) {
    // The model reads only the last tokens of a longer text.
    const size_t from = longest > 0 && static_cast<int64_t>(tokens.size()) > longest
                            ? tokens.size() - static_cast<size_t>(longest)
                            : 0;
    Batch batch;
    batch.set(
        vocabulary.field,
        at::tensor(std::vector<int64_t>(tokens.begin() + static_cast<int64_t>(from), tokens.end()), at::kLong)
            .unsqueeze(0));
    const State outputs = job.forward(batch);
    if (!outputs.has("logits") || outputs.at("logits").dim() != 3 ||
        outputs.at("logits").size(2) != vocabulary.size)
      fail(WEFT_INVALID_ARGUMENT, "{} gives no logits over tokens; generate needs a causal language model",
           architecture);
    tokens.push_back(draw(device::on_host(outputs.at("logits")[0][-1]), how, generator));
    say(tokens.back(), false);
    std::fflush(stdout);
  }
  std::fputc('\n', stdout);
  return 0;
}

}  // namespace weft::command

// Generates tokens with a boosted model, one after another, with a cache of the keys and values of all
// earlier tokens. Prompts of different lengths are computed together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/job.hpp"
#include "weft/state.hpp"

namespace weft {

// How tokens are chosen, and when a sequence ends.
struct GenerationOptions {
  // Tokens of each sequence. Not given: 100, or what a decoder behind an encoder has positions for if these
  // are fewer.
  std::optional<int64_t> max_new_tokens;
  bool greedy = false;     // takes the most likely token; without it one is drawn
  double temperature = 1;  // divides the logits before a token is drawn
  int64_t top_k = 0;       // draws from the k most likely tokens; 0: from all
  double top_p = 1;        // draws from the most likely tokens whose total probability reaches this
  double repetition_penalty =
      1;                    // divides positive logits of tokens of the sequence, multiplies negative ones
  int64_t num_samples = 1;  // sequences of each prompt, at most 65,536
  std::vector<int64_t> stop_ids;  // a sequence ends with the first of these
  int64_t seed = 42;              // of what is drawn, with the numbers of the prompt and of the sample
  int64_t first_prompt = 0;       // the number of the first prompt, where prompts come in several calls

  std::vector<int64_t> suppressed;        // tokens that are never chosen
  std::vector<int64_t> suppressed_first;  // tokens that are not chosen as the first one
  std::optional<int64_t> forced_first;    // the first new token of a prompt that has one token
  int64_t padding_id = 0;                 // fills the encoder's shorter sequences
  std::vector<int64_t> decoder_prompt;    // the first tokens of a decoder whose encoder reads the prompt

  // What the files of a model were read from; empty if none was.
  std::string origin;

  // Reads what the files of a model say: generation_config.json of a folder, or config.json where there is
  // none. stop_ids are its "eos_token_id", decoder_prompt is made of "decoder_start_token_id",
  // "forced_decoder_ids" and "no_timestamps_token_id", and temperature, top_k, top_p, repetition_penalty,
  // "suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id" and "pad_token_id" are read. Whether to
  // draw, and lengths, are the caller's to say: with `greedy` the result is greedy, and keys that only change
  // what is drawn are not read ("temperature", "top_p", "min_p", ...). decoder_prompt is empty where the
  // files leave a token of it to be detected (null in "forced_decoder_ids"). Throws UNIMPLEMENTED for a key
  // that changes the tokens in a way that Weft does not have ("num_beams", "no_repeat_ngram_size", ...),
  // INVALID_ARGUMENT for a value of the wrong kind.
  static GenerationOptions load(const std::string& path, bool greedy = false);
};

// A token that was chosen for a sample of a prompt.
struct GeneratedToken {
  int64_t prompt = 0, sample = 0, id = 0;
};
// Called for each token, in the order of prompts and samples. Returns false to end the sequence, as for a
// stop word that the caller found. With several ranks it is called on rank 0 alone; what it throws there, all
// ranks throw.
using OnToken = std::function<bool(const GeneratedToken& token)>;

// One sequence.
struct GeneratedSequence {
  int64_t prompt = 0, sample = 0;
  std::vector<int64_t> ids;  // the new tokens, a stop id among them
  bool stopped = false;      // by a stop id or by the caller, not by the number of tokens
};

// What generate() returns: all sequences, by prompt and sample.
struct Generation {
  std::vector<GeneratedSequence> sequences;
  double seconds = 0;  // of all of them together, with the prompts
  int64_t new_tokens() const;
  double tokens_per_second() const;  // the new tokens of all sequences
};

// Continues each prompt, which has at least one token. A model with a limit of positions reads the last ones
// of a longer text, and then computes them anew for each token. The model is in evaluation mode meanwhile.
// Throws INVALID_ARGUMENT for a model that does not predict the next token, for ids outside of its vocabulary
// and for options out of range, FAILED_PRECONDITION unless the job is boosted and each rank has all logits,
// UNIMPLEMENTED where ranks split the sequences, or a strategy schedules the units itself, DATA_LOSS if the
// logits are not numbers. Pipeline stages of the host run one after another for each token. All
// ranks pass the same arguments and get the same tokens: rank 0 chooses them. Collective.
Generation generate(Job& job, const std::vector<std::vector<int64_t>>& prompts,
                    const GenerationOptions& options, const OnToken& on_token = {});
// Does the same with the decoder of a model with an encoder. `inputs` has the fields of the encoder, each
// sample of which is a prompt. `prompts` are the first tokens of the decoder, for each sample; empty:
// options.decoder_prompt. Throws INVALID_ARGUMENT also where these and the new tokens are more than the
// decoder takes.
Generation generate(Job& job, const Batch& inputs, const std::vector<std::vector<int64_t>>& prompts,
                    const GenerationOptions& options, const OnToken& on_token = {});

}  // namespace weft

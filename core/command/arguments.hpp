// The arguments of the `weft` command, and what several verbs make from them.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoint/missing.hpp"
#include "weft/data/part.hpp"
#include "weft/weft.hpp"

namespace weft::data {
class QuestionSamples;
class TextDocuments;
}  // namespace weft::data

namespace weft::command {

using nlohmann::json;

// Return an argument, or `otherwise` if it was not given.
std::string text(const json& arguments, const char* key, const std::string& otherwise = "");
int64_t integer(const json& arguments, const char* key, int64_t otherwise);
double real(const json& arguments, const char* key, double otherwise);
// Returns whether a flag was given.
bool flag(const json& arguments, const char* key);
// Returns whether an argument was given.
bool given(const json& arguments, const char* key);

// Reads --strategy, -o, --micro-batch-size, --booster, --precision, --mixed-precision, --recompute,
// --accumulate, --max-grad-norm, --check-agreement, --seed and --device. The strategy is `without` ("none",
// or empty for the default plugin) if neither --strategy nor --booster is given.
BoosterOptions booster_options(const json& arguments, const std::string& without);
// Like booster_options(), for a verb that reads the logits: sets the strategy's option parallel_output to
// false, so that every rank has all of them. Throws INVALID_ARGUMENT if the user set it to true.
BoosterOptions booster_options_for_outputs(const json& arguments, const std::string& without);
// Opens --model with --architecture and --adapter. Boosting the model throws if its weights lack more than
// `missing` allows, unless --allow-missing is given. For a folder without weights, throws NOT_FOUND with
// Missing::kNothing, and otherwise prints on rank 0 that the model begins with initial values.
Model open_model(const json& arguments, const std::string& precision, const World& world,
                 checkpoint::Missing missing);
// Opens --data with the labels that --objective and its settings ask for; `seed` decides what they draw, and
// with --held-out which samples are held out; `held_out_part` is read then without --part. A folder of files
// is opened for a model that reads such files, files of questions for one that answers them, a file of bytes,
// tokens or tensors like open_data() does, other text as text_data.hpp says. The model keeps its tokenizer,
// or that of --tokenizer, for saves. If it fails on one rank it throws on all. Collective.
std::shared_ptr<data::Dataset> open_labelled_data(const json& arguments, const Model& model, int64_t seed,
                                                  const World& world, data::Part held_out_part);
// Opens --data in the same way for --by-document: each document by itself. Throws INVALID_ARGUMENT on every
// rank for data without documents, a model that does not predict the next token, and flags without effect.
// Collective.
std::shared_ptr<data::TextDocuments> open_documents(const json& arguments, const Model& model, int64_t seed,
                                                    const World& world, data::Part held_out_part);
// Opens --data in the same way where it is files of questions (question_data.hpp). Collective.
std::shared_ptr<data::QuestionSamples> open_questions(const json& arguments, const Model& model, int64_t seed,
                                                      const World& world, data::Part held_out_part);
// Returns --sequence-length, or 0 if it is not given.
int64_t sequence_length(const json& arguments);
// Returns the flag of the command line that became the argument `key`.
std::string flag_of(std::string key);
// Returns --workers; without it, for a folder of files as many threads as each rank of this host has
// processors, at most 4, and otherwise 0.
int64_t loader_workers(const json& arguments, const char* key, const Model& model, const World& world);
// Opens --inputs of `weft generate`, the inputs of the encoder.
std::shared_ptr<data::Dataset> open_encoder_inputs(const json& arguments, const Model& model,
                                                   const World& world);
// Opens the data set under `key` with --sequence-length and --token-type, and checks it against `model`.
std::shared_ptr<data::Dataset> open_data(const json& arguments, const char* key, const Model& model,
                                         const World& world);
// Returns --timeout, which must be more than 0 seconds and at most a year; without it, kDefaultTimeout.
std::chrono::milliseconds timeout(const json& arguments);
// Joins the job as launch() does, within --timeout. Throws on every rank if the ranks run different verbs or
// have different flags, except for paths that each rank reads itself (--model, --data, --tokenizer, --inputs,
// --adapter, --booster): boost() compares their contents. Blocks.
World join_job(const char* verb, const json& arguments);

}  // namespace weft::command

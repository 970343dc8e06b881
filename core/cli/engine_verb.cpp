#include "engine_verb.hpp"

#include <weft/error.hpp>

#include "base/duration.hpp"
#include "base/text.hpp"
#include "host/command.h"
#include "host/launch/failure_report.hpp"
#include "host/launch/rank_environment.hpp"
#include "host/launch/run_ranks.hpp"
#include "host/signals.h"
#include "numbers.hpp"
#include "verbs.hpp"

namespace weft::cli {

EngineVerb::EngineVerb(CLI::App& application, std::string name, const std::string& description,
                       const std::string& footer, const char* engine_verb)
    : name_(engine_verb ? engine_verb : name), app_(application.add_subcommand(name, description)) {
  app_->footer(footer);
  app_->callback([verb = *this]() mutable { verb.perform(); });
}

namespace {

// Throws UsageError if `text`, a value of `flag`, is not UTF-8, which JSON cannot pass to the engine.
void require_utf8(const std::string& flag, const std::string& text) try {
  nlohmann::json(text).dump();
} catch (const nlohmann::json::type_error&) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  const std::string shown = printable(nlohmann::json(text).dump(-1, ' ', true, replace));
  throw UsageError(fmt::format("{} is {}, which is not UTF-8", flag, shown));
}

}  // namespace

EngineVerb& EngineVerb::text(const std::string& flags, const char* key, const std::string& help,
                             bool required) {
  app_->add_option_function<std::string>(
          flags,
          [arguments = arguments_, flags, key](const std::string& value) {
            require_utf8(flags, value);
            (*arguments)[key] = value;
          },
          help)
      ->required(required);
  return *this;
}
EngineVerb& EngineVerb::integer(const std::string& flags, const char* key, const std::string& help) {
  add_integer(*app_, flags, help, keep<int64_t>(key));
  return *this;
}
EngineVerb& EngineVerb::real(const std::string& flags, const char* key, const std::string& help) {
  add_real(*app_, flags, help, keep<double>(key));
  return *this;
}
EngineVerb& EngineVerb::integers(const std::string& flags, const char* key, const std::string& help,
                                 bool may_be_empty) {
  add_integers(*app_, flags, help, keep<std::vector<int64_t>>(key), may_be_empty);
  return *this;
}
EngineVerb& EngineVerb::reals(const std::string& flags, const char* key, const std::string& help) {
  add_reals(*app_, flags, help, keep<std::vector<double>>(key));
  return *this;
}
EngineVerb& EngineVerb::flag(const std::string& flags, const char* key, const std::string& help) {
  app_->add_flag_callback(
      flags, [arguments = arguments_, key] { (*arguments)[key] = true; }, help);
  return *this;
}
EngineVerb& EngineVerb::words(const std::string& flags, const char* key, const std::string& help,
                              bool required) {
  app_->add_option_function<std::vector<std::string>>(
          flags,
          [arguments = arguments_, flags, key](const std::vector<std::string>& values) {
            for (const std::string& value : values) require_utf8(flags, value);
            (*arguments)[key] = values;
          },
          help)
      ->allow_extra_args(false)
      ->required(required);
  return *this;
}

EngineVerb& EngineVerb::data_flags() {
  words(
      "--data", "data",
      "Text: a file, a folder or a pattern (\"books/*.jsonl\"), also several as a mixture, with PATH=WEIGHT; "
      "lines of .jsonl have \"text\", \"prompt\" and \"completion\", or \"messages\". Or one .bin (tokens) "
      "or .safetensors (tensors with the names of the model's inputs), or a folder of files for models that "
      "read these: CLASS/FILE.png of images, FILE.wav (.flac, .ogg, .opus, .aiff) of recordings with "
      "FILE.txt, their transcripts. For question answering: files as SQuAD's, .json or .jsonl",
      true);
  text("--tokenizer", "tokenizer",
       "Folder of the tokenizer; default: that of --model. Without one the bytes of text are the tokens");
  flag("--bytes", "bytes", "Take the bytes of text as tokens, though the model has a tokenizer");
  text(
      "--packing", "packing",
      "How documents become samples: documents (one after the other, labels cross no border), stream (as one "
      "text), or none (each by itself, with padding); default documents");
  text("--long-documents", "long_documents",
       "What becomes of documents that are longer than a sample: cut or drop; default cut");
  real(
      "--held-out", "held_out",
      "Share of the documents, of the contexts of questions, or of the images or recordings (of each class), "
      "that train leaves out and evaluate reads, drawn by --seed; default 0");
  integer(
      "--overlap", "overlap",
      "How many tokens the windows of a long context share, for files of questions; default 128, or a third "
      "of --sequence-length");
  flag("--skip-broken-lines", "skip_broken_lines", "Skip lines of .jsonl that are broken, and count them");
  text("--token-type", "token_type", "Type of the tokens in a .bin file: uint16 or uint32; default uint16");
  return integer("--sequence-length", "sequence_length",
                 "Tokens per sample of text, questions or a .bin file; default: the largest number that the "
                 "model takes");
}

EngineVerb& EngineVerb::loader_flags() {
  return integer("--workers", "workers",
                 "Threads that load batches ahead; default: up to 4 for a folder of files, otherwise 0");
}

EngineVerb& EngineVerb::objective_flags() {
  text("--objective", "objective",
       "Labels to make from the inputs: causal_lm, masked_lm, next_sentence (pairs of sentences from "
       "documents of text), masked_lm_next_sentence (both) or masked_image; default: those of a "
       ".safetensors file, and for text and .bin the usual objective of the model class");
  integer(
      "--mask-token-id", "mask_token_id",
      "Of objectives with masked_lm, which need it: the id that replaces masked tokens; default: [MASK] of "
      "the tokenizer, for text");
  integers("--special-ids", "special_ids",
           "Of the same: ids that are never masked, such as [CLS], [SEP] and padding: 0,101,102, besides the "
           "special tokens of a tokenizer; default: \"\" (none)",
           true);
  real("--mlm-probability", "mlm_probability", "Of the same: share of the tokens to predict; default 0.15");
  real("--mask-ratio", "mask_ratio", "Of masked_image: share of the image to mask; default 0.6");
  return integer("--mask-patch-size", "mask_patch_size",
                 "Of masked_image: side in pixels of the squares to mask; default 32");
}

EngineVerb& EngineVerb::device_flags() {
  text("--device", "device",
       "Where the model computes: cpu, or the device of an installed library; default: cpu");
  flag("--deterministic", "deterministic",
       "Compute the same bits at every run; an operation that cannot is an error");
  return flag("--allow-tf32", "allow_tf32",
              "Compute matrix products of fp32 values in TF32, which GPUs do faster and less accurately");
}

EngineVerb& EngineVerb::model_flags() {
  text("--model", "model", "Hugging Face model folder, or a config.json for a model with initial values",
       true);
  text("--architecture", "architecture",
       "Model class; default: the first of \"architectures\" in config.json");
  return text("--adapter", "adapter",
              "JSON file with an operation that adds parameters to layers; all other parameters are frozen");
}

EngineVerb& EngineVerb::allow_missing_flag(const std::string& otherwise) {
  return flag("--allow-missing", "allow_missing",
              "Begin with initial values for parameters that the weights lack; default: " + otherwise);
}

EngineVerb& EngineVerb::strategy_flags(const std::string& without) {
  text("--strategy", "strategy", "Name of a strategy, or none; default: " + without);
  words("-o,--option", "options",
        "Option of the strategy, key=value; can be repeated. `weft plugins show NAME` lists the options");
  text("--booster", "booster",
       "JSON file with the strategy, its options and more, in place of --strategy and -o");
  text(
      "--precision", "precision",
      "Dtype of the parameters: fp32, fp64, bf16 or fp16; default: the strategy's option precision, or fp32");
  text("--mixed-precision", "mixed_precision",
       "Autocast to bf16 or fp16, or fp16_naive; for strategies without precision options");
  return integer("--seed", "seed",
                 "Seed of initial values, dropout, shuffling, masking and sampling; default 42");
}

EngineVerb& EngineVerb::ranks_flag(bool saves) {
  add_integer(
      *app_, "-n,--nproc-per-node",
      "Number of ranks to start on this host; default 1. Omit it under weft run, torchrun, srun and mpirun",
      [launch = launch_](int64_t ranks) { launch->num_ranks = static_cast<int>(ranks); }, kRanksPerHost);
  add_real(*app_, "--grace",
           saves
               ? "Seconds for stopping and saving after a signal; default 300. With -n, ranks that still run "
                 "then are killed. A save that takes longer, or by default longer than 30 s, prints a warning"
               : "With -n: seconds for the ranks to stop after a signal; default 300",
           [launch = launch_, arguments = arguments_, saves](double seconds) {
             launch->grace = milliseconds("--grace", seconds);
             launch->grace_is_of_launcher = !saves;
             if (saves) (*arguments)["grace"] = seconds;
           });
  add_real(*app_, "--timeout",
           "Seconds to wait for other ranks, at the start and in every collective; default 1800",
           [arguments = arguments_](double seconds) {
             milliseconds("--timeout", seconds);  // only checks: the engine converts them
             (*arguments)["timeout"] = seconds;
           });
  return *this;
}

void EngineVerb::perform() {
  with_usage_errors([&] {
    const Launch& asked = *launch_;
    if (asked.grace_is_of_launcher && !asked.num_ranks)
      fail(WEFT_INVALID_ARGUMENT,
           "--grace is for the ranks that -n starts, but -n is not given; other launchers have a grace of "
           "their own");
    // One rank needs a launcher only to be given a grace.
    if (launch::must_launch(asked.num_ranks) ||
        (asked.grace && asked.num_ranks && !launch::is_launched_by_itself())) {
      launch::RunOptions options;
      options.num_ranks = *asked.num_ranks;
      options.verb = name_;
      if (asked.grace) options.grace = *asked.grace;
      weft_signals_end();  // the launcher takes them itself
      throw Exit{launch::run_self(options)};
    }
  });
  perform_in_engine(name_, *arguments_);
}

std::chrono::milliseconds milliseconds(const char* flag, double seconds) {
  return with_usage_errors([&] { return milliseconds_of(flag, seconds); });
}

void fail_verb(weft_status status, const std::string& text) {
  const launch::RankEnvironment ranks = launch::read_rank_environment();
  if (ranks.world_size == 1 && !launch::has_report_channel()) throw Error(status, text);
  launch::report_failure(ranks.rank, status, text);
  throw Exit{1};
}

void perform_in_engine(const std::string& verb, const nlohmann::json& arguments) {
  const std::string text = arguments.dump();
  weft_error* const error = weft_error_create();
  int32_t code = 0;
  const weft_status status = weft_command(borrow(verb), borrow(text), &code, error);
  const std::string failure(view(weft_error_text(error)));
  weft_error_destroy(error);
  if (status == WEFT_OK) throw Exit{code};
  fail_verb(status, failure);
}

}  // namespace weft::cli

#include "command/text_data.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/text.hpp"
#include "opening/model_data.hpp"
#include "opening/model_state.hpp"
#include "text/text_files.hpp"

namespace weft::command {

namespace fs = std::filesystem;

namespace {

// Returns the source that a word of --data stands for: PATH, or PATH=WEIGHT. A file whose name has a = comes
// first.
data::TextSource source_of(const std::string& word) {
  const size_t equals = word.rfind('=');
  std::error_code ignored;
  if (equals == std::string::npos || fs::exists(word, ignored)) return {word, std::nullopt};
  double weight = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data() + equals + 1, end, weight);
  if (error != std::errc() || rest != end)
    fail(WEFT_INVALID_ARGUMENT, "--data {}: the weight is \"{}\", must be a number: PATH=0.3", word,
         word.substr(equals + 1));
  return {word.substr(0, equals), weight};
}

template <class Value>
Value choice(const json& arguments, const char* key,
             const std::vector<std::pair<std::string, Value>>& known) {
  if (!given(arguments, key)) return known.front().second;
  const std::string name = text(arguments, key);
  std::vector<std::string> names;
  for (const auto& [text, value] : known) {
    if (text == name) return value;
    names.push_back(text);
  }
  fail(WEFT_INVALID_ARGUMENT, "{} is \"{}\", must be {}{}", flag_of(key), printable(name, 60),
       fmt::join(names, " or "), did_you_mean(name, names));
}

// Prints how much of a source is tokenized: a line that changes on a terminal, otherwise one every few
// seconds.
class TokenizeProgress {
 public:
  TokenizeProgress() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}
  void operator()(const std::string& source, int64_t done, int64_t total) {
    using Clock = std::chrono::steady_clock;
    const auto now = Clock::now();
    const bool is_last = done >= total;
    const std::chrono::milliseconds interval(is_terminal_ ? 100 : 5000);
    if (now - printed_ < interval && !(is_last && has_printed_)) return;
    // Nothing about text that takes no time.
    if (!has_printed_ && now - start_ < interval) return;
    std::fprintf(stderr, "%stokenizing %s: %.0f %% of %.1f MB%s", is_terminal_ ? "\r\033[K" : "",
                 source.c_str(),
                 total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0,
                 static_cast<double>(total) / 1e6, is_terminal_ && !is_last ? "" : "\n");
    printed_ = now;
    has_printed_ = !is_last;
  }

 private:
  const bool is_terminal_;
  bool has_printed_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), printed_ = {};
};

}  // namespace

TextData::TextData(const json& arguments, const Model& model, const World& world, data::Part held_out_part) {
  read_sources(arguments);
  read_options(arguments, held_out_part);
  const bool is_other =
      sources_.size() == 1 && (file().ends_with(".bin") || file().ends_with(".safetensors"));
  find_tokenizer(arguments, model, world);
  std::error_code ignored;
  // Bytes of one file need no cache.
  const bool is_bytes = !tokenizer_ && sources_.size() == 1 && !sources_.front().weight &&
                        !data::has_json_lines(file()) && !fs::is_directory(file(), ignored) &&
                        (fs::exists(file(), ignored) || file().find_first_of("*?[") == std::string::npos) &&
                        options_.held_out == 0 && !given(arguments, "packing") &&
                        !given(arguments, "long_documents") && !flag(arguments, "by_document");
  wanted_ = !is_other && !is_bytes;
  if (!wanted_) refuse_without_effect(arguments);
  options_.note = [world](const std::string& note) { world.print_on_master(note); };
}

void TextData::read_sources(const json& arguments) {
  const json& words = arguments.at("data");
  if (words.is_string()) {
    sources_ = {source_of(words.get<std::string>())};
    return;
  }
  for (const json& word : words) sources_.push_back(source_of(word.get<std::string>()));
}

void TextData::read_options(const json& arguments, data::Part otherwise) {
  using data::Packing, data::Part;
  options_.sequence_length = sequence_length(arguments);
  options_.packing = choice<Packing>(
      arguments, "packing",
      {{"documents", Packing::kDocuments}, {"stream", Packing::kStream}, {"none", Packing::kNone}});
  packing_is_given_ = given(arguments, "packing");
  options_.drop_long_documents = choice<bool>(arguments, "long_documents", {{"cut", false}, {"drop", true}});
  options_.held_out = real(arguments, "held_out", 0);
  if (given(arguments, "held_out") && !(options_.held_out > 0 && options_.held_out < 1))
    fail(WEFT_INVALID_ARGUMENT, "--held-out is {}, must be more than 0 and less than 1", options_.held_out);
  options_.part = choice<Part>(
      arguments, "part", {{"all", Part::kAll}, {"train", Part::kTraining}, {"held-out", Part::kHeldOut}});
  if (options_.held_out > 0 && !given(arguments, "part")) options_.part = otherwise;
  options_.skip_broken_lines = flag(arguments, "skip_broken_lines");
  options_.timeout = timeout(arguments);
}

void TextData::find_tokenizer(const json& arguments, const Model& model, const World& world) {
  const std::string folder = text(arguments, given(arguments, "tokenizer") ? "tokenizer" : "model");
  if (!given(arguments, "tokenizer") && !Tokenizer::is_in(folder)) return;
  const bool needs_no_tokenizer = file().ends_with(".bin") || file().ends_with(".safetensors");
  try {
    tokenizer_ = Tokenizer::open(folder);
    model.shared().tokenizer = tokenizer_;
  } catch (const Error& error) {
    if (given(arguments, "tokenizer") || !needs_no_tokenizer) throw;
    world.print_on_master(
        fmt::format("the tokenizer of {} is not saved with the model: {}", folder, error.what()));
  }
}

void TextData::refuse_without_effect(const json& arguments) const {
  for (const char* key : {"packing", "long_documents", "held_out", "part"})
    if (given(arguments, key))
      fail(WEFT_INVALID_ARGUMENT, "{} is for text with a tokenizer, but {} is read as it is; leave it out",
           flag_of(key), file());
  if (sources_.front().weight)
    fail(WEFT_INVALID_ARGUMENT, "{}: a weight is for text with a tokenizer, but this file is read as it is",
         file());
}

data::TextOptions TextData::options_for(const ObjectiveOptions& objective) const {
  data::TextOptions options = options_;
  options.seed = objective.seed;
  options.progress = TokenizeProgress();
  return options;
}

std::shared_ptr<data::Dataset> TextData::open(const Model& model, const ObjectiveOptions& objective) const {
  if (packing_is_given_ && makes_pairs(model, objective, flag_of))
    fail(WEFT_INVALID_ARGUMENT,
         "--packing has no effect here, because {} is trained on pairs of sentences, each of which is a "
         "sample; leave it out",
         model.architecture());
  return open_text_dataset(model, sources_, tokenizer_, options_for(objective), objective, flag_of);
}

std::shared_ptr<data::TextDocuments> TextData::open_documents(const Model& model,
                                                              const ObjectiveOptions& objective) const {
  if (!is_wanted())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: --by-document measures the documents of text, and a file of {} has none; give text files, JSON "
         "lines or a folder of them, or leave it out",
         file(), file().ends_with(".bin") ? "tokens" : "tensors");
  return open_text_documents(model, sources_, tokenizer_, options_for(objective), objective, flag_of);
}

}  // namespace weft::command
